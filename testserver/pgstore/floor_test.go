package pgstore

import (
	"testing"

	"github.com/jackc/pgx/v5"

	"github.com/semel-go/semel/testserver"
)

// byHand returns a transfer under a key in the fewest statements that there can be, in the same round trips: no limit to
// the wait for the key, no replay, no refusal, and nobody who looks whether COMMIT did. It is what [Store.Transact] could
// cost at the least.
func byHand(b *testing.B, s *Store) func(int) {
	const insert = `INSERT INTO semel_keys (id, scope, key, fingerprint, owner, lease_until, expires_at, created_at, state, fence, started)
		VALUES ($1, $2, $3, $4, $5, clock_timestamp() + $6::bigint * interval '1 microsecond',
		clock_timestamp() + $7::bigint * interval '1 microsecond', clock_timestamp(), 1, 1, true) ON CONFLICT (id) DO NOTHING`
	const update = `UPDATE semel_keys SET state = $2, status = $3, header = $4, body = $5 WHERE id = $1`
	return func(w int) {
		conn, err := s.DB.Acquire(b.Context())
		must(b, err)
		defer conn.Release()
		c := claimOf(newKey())
		open := &pgx.Batch{}
		open.Queue("BEGIN")
		open.Queue(insert, claimArgs(c)...)
		must(b, conn.SendBatch(b.Context(), open).Close())
		_, err = transfer(b.Context(), &tx{conn: conn.Conn()}, testserver.Transfer{From: account(2 * w), To: account(2*w + 1), Amount: 1})
		must(b, err)
		columns, err := s.columnsOf(completed())
		must(b, err)
		end := &pgx.Batch{}
		end.Queue(update, append([]any{at(c.ID)}, columns...)...)
		end.Queue("COMMIT")
		must(b, conn.SendBatch(b.Context(), end).Close())
	}
}
