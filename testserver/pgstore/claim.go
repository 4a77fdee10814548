package pgstore

import (
	"context"
	"errors"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/semel-go/semel/testserver"
)

// Claim is one round trip, two if it takes over or overwrites. When its answer is lost it asks again, and when it has to
// give up it frees in the background what it may have claimed: nobody holds a key by a Claim that failed. Until that is
// certain, a further Claim by the same owner waits for it.
func (s *Store) Claim(ctx context.Context, c testserver.Claim) (testserver.Record, error) {
	ctx, cancel := s.limit(ctx)
	defer cancel()
	if err := s.dropped.wait(ctx, c.Owner); err != nil {
		return testserver.Record{}, s.fail("claim", c.ID, err)
	}
	var r row
	held := false
	err := retry(ctx, maybeDone, func() (err error) {
		r, err = s.claim(ctx, c)
		held = held || maybeDone(err)
		return err
	})
	if err == nil {
		return r.Record, nil
	}
	if held {
		s.drop(c)
	}
	return testserver.Record{}, s.fail("claim", c.ID, err)
}

func (s *Store) claim(ctx context.Context, c testserver.Claim) (row, error) {
	conn, err := s.acquire(ctx)
	if err != nil {
		return row{}, err
	}
	defer conn.Release()
	for try := 1; ; try++ {
		r, done, err := s.claimOn(ctx, conn, c)
		if err != nil && !again(err) || err == nil && done {
			return r, err
		}
		if try == tries {
			return row{}, errDefinite{errors.Join(err, errContended)}
		}
		if err := pause(ctx, try, 2*time.Millisecond); err != nil {
			return row{}, errDefinite{err}
		}
	}
}

var errContended = errors.New("the row kept changing hands")

// A sender is a connection or a pool.
type sender interface {
	SendBatch(context.Context, *pgx.Batch) pgx.BatchResults
}

// claimOn reports done unless the row changed in a way that asks to begin anew.
func (s *Store) claimOn(ctx context.Context, db sender, c testserver.Claim) (r row, done bool, err error) {
	q := s.statements()
	b := &pgx.Batch{}
	b.Queue(q.insert, append(claimArgs(c), c.Started)...)
	b.Queue(q.unlessInserted, at(c.ID))
	r, inserted, err := changed(db.SendBatch(ctx, b), c.ID)
	if err != nil {
		return r, true, err
	}
	if inserted {
		return fresh(c), true, nil
	}
	step := s.next(r, c)
	if step.sql == "" {
		return r, r.State != testserver.Free, nil // gone in between: it may be had now
	}
	b = &pgx.Batch{}
	b.Queue(step.sql, step.args...)
	b.Queue(q.read, at(c.ID))
	after, stepped, err := changed(db.SendBatch(ctx, b), c.ID)
	if err != nil || stepped {
		return after, true, err
	}
	locked := step.skips && after.Owner == r.Owner && after.Fence == r.Fence && after.State == r.State
	return after, locked, nil
}

func claimArgs(c testserver.Claim) []any {
	return []any{at(c.ID), []byte(c.ID.Scope), []byte(c.ID.Key), c.Fingerprint[:], c.Owner[:], micros(c.Lease), micros(c.Retention)}
}

// fresh is the row that a claim has inserted.
func fresh(c testserver.Claim) row {
	return row{Record: testserver.Record{ID: c.ID, State: testserver.Pending, Fingerprint: c.Fingerprint, Owner: c.Owner, Fence: 1,
		Started: c.Started, Left: max(0, c.Lease)}}
}

// changed reads a batch of a change and the row after it, and closes it.
func changed(results pgx.BatchResults, id testserver.ID) (row, bool, error) {
	defer results.Close()
	tag, err := results.Exec()
	if err != nil {
		return row{}, false, err
	}
	r, err := scan(results.QueryRow(), id)
	if err != nil {
		return row{}, false, err
	}
	return r, tag.RowsAffected() == 1, results.Close()
}

// A step is a compare-and-set that follows from a row as it was seen.
type step struct {
	sql   string // "" is none
	args  []any
	skips bool // leaves a locked row alone
	holds bool // gives the row to the claim
}

func (s *Store) next(r row, c testserver.Claim) step {
	q, seen := s.statements(), []any{at(c.ID), r.Owner[:], r.Fence}
	switch {
	case r.expired:
		return step{sql: q.overwrite, holds: true,
			args: append(seen, c.Fingerprint[:], c.Owner[:], c.Started, micros(c.Lease), micros(c.Retention))}
	case r.State != testserver.Pending || r.Fingerprint != c.Fingerprint:
		return step{}
	case r.Left > 0 && r.Owner == c.Owner: // the answer to an earlier call was lost
		return step{sql: q.refresh, holds: true, skips: true, args: append(seen, micros(c.Lease))}
	case r.Left > 0:
		return step{}
	case r.Started || c.RerunFor > 0 && r.Age > c.RerunFor:
		return step{sql: q.lapse, skips: true, args: seen}
	}
	return step{sql: q.takeover, holds: true, skips: true, args: append(seen, c.Owner[:], c.Started, micros(c.Lease))}
}
