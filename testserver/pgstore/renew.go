package pgstore

import (
	"context"
	"time"

	"github.com/semel-go/semel/testserver"
)

// Renew is one round trip for all holds. A row that a transaction has locked is Busy.
func (s *Store) Renew(ctx context.Context, lease time.Duration, holds []testserver.Hold) ([]testserver.Renewal, error) {
	if len(holds) == 0 {
		return nil, nil
	}
	ctx, cancel := s.limit(ctx)
	defer cancel()
	var renewals []testserver.Renewal
	err := retry(ctx, repeatable, func() (err error) {
		renewals, err = s.renew(ctx, lease, holds)
		return err
	})
	if err != nil {
		return nil, s.fail("renew the lease of", holds[0].ID, err)
	}
	return renewals, nil
}

func (s *Store) renew(ctx context.Context, lease time.Duration, holds []testserver.Hold) ([]testserver.Renewal, error) {
	conn, err := s.acquire(ctx)
	if err != nil {
		return nil, err
	}
	defer conn.Release()
	once, index := merged(holds)
	rows, err := conn.Query(ctx, s.statements().renew, append(holdArrays(once), micros(lease))...)
	if err != nil {
		return nil, err
	}
	defer rows.Close()
	became := make([]testserver.Renewal, len(once))
	for i := range became {
		became[i] = testserver.Lost
	}
	for rows.Next() {
		var n int64
		var locked int32
		if err := rows.Scan(&n, &locked); err != nil {
			return nil, err
		}
		became[n] = testserver.Renewed
		if locked == 1 {
			became[n] = testserver.Busy
		}
	}
	if err := rows.Err(); err != nil {
		return nil, err
	}
	renewals := make([]testserver.Renewal, len(holds))
	for i, n := range index {
		renewals[i] = became[n]
	}
	return renewals, nil
}

// merged makes one of equal holds, since one statement updates a row once; index tells where each went.
func merged(holds []testserver.Hold) (once []testserver.Hold, index []int) {
	known := make(map[testserver.Hold]int, len(holds))
	for _, h := range holds {
		bare := h
		bare.Started = false
		n, ok := known[bare]
		if !ok {
			n = len(once)
			known[bare] = n
			once = append(once, bare)
		}
		once[n].Started = once[n].Started || h.Started
		index = append(index, n)
	}
	return once, index
}

func holdArrays(holds []testserver.Hold) []any {
	var places []place
	var owners [][]byte
	var fences, numbers []int64
	var started []bool
	for n, h := range holds {
		places, owners, fences = append(places, at(h.ID)), append(owners, h.Owner[:]), append(fences, h.Fence)
		numbers, started = append(numbers, int64(n)), append(started, h.Started)
	}
	return []any{places, owners, fences, started, numbers}
}
