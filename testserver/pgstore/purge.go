package pgstore

import (
	"context"
	"math/rand/v2"
	"time"

	"github.com/jackc/pgx/v5"
)

// purgeBatch is small because a claim of an expired key waits for a transaction that is just deleting it.
const purgeBatch = 200

// Purge deletes in transactions of at most 200 rows, which do not wait for locks or for the disk: what a crash undoes is
// purged again. Between them it rests for three times as long as they took, so that claims hardly notice. Claims of other
// keys never wait for it.
func (s *Store) Purge(ctx context.Context, limit int) (int, error) {
	total := 0
	for total < limit {
		began := time.Now()
		n, err := s.purge(ctx, min(purgeBatch, limit-total))
		total += n
		if again(err) {
			continue
		}
		if err != nil {
			return total, s.failTable(err)
		}
		if n < purgeBatch || total == limit || sleep(ctx, 3*time.Since(began)) != nil {
			break
		}
	}
	return total, nil
}

func (s *Store) purge(ctx context.Context, limit int) (int, error) {
	ctx, cancel := s.limit(ctx)
	defer cancel()
	conn, err := s.acquire(ctx)
	if err != nil {
		return 0, err
	}
	defer conn.Release()
	b := &pgx.Batch{}
	b.Queue(`SELECT set_config('synchronous_commit', 'off', true)`)
	b.Queue(s.statements().purge, limit)
	results := conn.SendBatch(ctx, b)
	defer results.Close()
	if _, err := results.Exec(); err != nil {
		return 0, err
	}
	tag, err := results.Exec()
	if err != nil {
		return 0, err
	}
	return int(tag.RowsAffected()), results.Close()
}

// KeepPurging purges until the context ends and returns its cause: all that has expired, then a pause of every, give or
// take a quarter, so that processes do not do it at once. Failures are tried again after the next pause.
func (s *Store) KeepPurging(ctx context.Context, every time.Duration) error {
	for {
		for {
			n, err := s.Purge(ctx, 10*purgeBatch)
			if err != nil || n == 0 || sleep(ctx, rand.N(20*time.Millisecond)) != nil {
				break
			}
		}
		if err := sleep(ctx, every*3/4+rand.N(every/2+1)); err != nil {
			return err
		}
	}
}
