package pgstore

import (
	"crypto/sha256"
	"encoding/binary"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgtype"

	"github.com/semel-go/semel/testserver"
)

// A place is the primary key of a key's row. SHA-256 cut to 128 bits: nobody finds a key that hits another's place.
type place = pgtype.UUID

func at(id testserver.ID) place {
	b := binary.AppendUvarint(make([]byte, 0, 128), uint64(len(id.Scope)))
	sum := sha256.Sum256(append(append(b, id.Scope...), id.Key...))
	return place{Bytes: [16]byte(sum[:]), Valid: true}
}

// A row is a record and what decides about it.
type row struct {
	testserver.Record
	expired bool
}

// terminal reports whether the row has an end that can expire.
func (r row) terminal() bool {
	return r.State == testserver.Completed || r.State == testserver.Tombstone
}

// scan reads the columns of a row. No row is a free key.
func scan(rows pgx.Row, id testserver.ID) (row, error) {
	var (
		state                        int16
		fingerprint, owner           []byte
		leaseUntil, created, expires time.Time
		now                          time.Time
		status                       *int32
		header, body                 []byte
		r                            = row{Record: testserver.Record{ID: id}}
	)
	err := rows.Scan(&state, &fingerprint, &owner, &r.Fence, &r.Started, &leaseUntil, &created, &expires, &now,
		&status, &header, &body)
	if err == pgx.ErrNoRows {
		return r, nil
	}
	if err != nil {
		return row{}, err
	}
	r.State = testserver.State(state)
	if r.State <= testserver.Free || r.State > testserver.Tombstone ||
		copy(r.Fingerprint[:], fingerprint) != len(r.Fingerprint) || copy(r.Owner[:], owner) != len(r.Owner) {
		return row{}, fmt.Errorf("state %d, a fingerprint of %d and an owner of %d bytes: not written by this package", state, len(fingerprint), len(owner))
	}
	r.Age = max(0, now.Sub(created))
	r.expired = r.terminal() && !expires.After(now)
	if r.State == testserver.Pending {
		r.Left = max(0, leaseUntil.Sub(now))
	}
	if r.terminal() {
		r.Answer, err = decode(status, header, body)
	}
	return r, err
}

// micros is a duration as the statements take it; a lease or a retention that rounds to nothing is over at once.
func micros(d time.Duration) int64 { return max(0, d.Microseconds()) }
