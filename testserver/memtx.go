package testserver

import (
	"context"
	"errors"
	"time"
)

// errConflict is what an effect in memory says at its commit when what it was decided on has changed, as databases report
// a serialization failure. The transaction runs again.
var errConflict = errors.New("testserver: the transaction conflicts with another")

type memTx struct{ effect func() error }

type memTxKey struct{}

// atCommit registers the effect of a transaction of a MemStore. It is applied together with the key and the answer, all
// or nothing, and reports errConflict if it no longer can be. It must not block. Outside a transaction it returns false.
func atCommit(ctx context.Context, effect func() error) bool {
	tx, ok := ctx.Value(memTxKey{}).(*memTx)
	if !ok {
		return false
	}
	if tx.effect != nil {
		panic("testserver: a transaction in memory takes one effect")
	}
	tx.effect = effect
	return true
}

// Transact implements [Transactor] for the effects of a [Bank] in memory. They become visible together with the answer.
func (s *MemStore) Transact(ctx context.Context, c Claim, wait time.Duration, work func(context.Context) (*Answer, error)) (Record, error) {
	leave, rec, err := s.enter(ctx, c, wait)
	if leave == nil {
		return rec, err
	}
	defer leave()
	for {
		tx := new(memTx)
		answer, err := work(context.WithValue(ctx, memTxKey{}, tx))
		if err != nil {
			return Record{}, err
		}
		if answer.Status >= 400 {
			tx.effect = nil
		}
		if rec, err = s.commit(c, tx, answer); !errors.Is(err, errConflict) {
			return rec, err
		}
		if ctx.Err() != nil {
			return Record{}, context.Cause(ctx)
		}
	}
}

// enter makes the key this transaction's, and returns how to leave it. Without, the record stands as returned.
func (s *MemStore) enter(ctx context.Context, c Claim, wait time.Duration) (leave func(), rec Record, err error) {
	patience := time.NewTimer(wait)
	defer patience.Stop()
	s.mu.Lock()
	for s.running[c.ID] != nil {
		done := s.running[c.ID]
		s.mu.Unlock()
		select {
		case <-done:
		case <-patience.C:
			return nil, Record{}, ErrBusy
		case <-ctx.Done():
			return nil, Record{}, context.Cause(ctx)
		}
		s.mu.Lock()
	}
	defer s.mu.Unlock()
	now := time.Now()
	if r := s.records[c.ID]; r != nil && !r.expired(now) {
		return nil, r.view(c.ID, now), nil
	}
	s.remove(c.ID)
	if err := s.room(now); err != nil {
		return nil, Record{}, err
	}
	if s.running == nil {
		s.running = make(map[ID]chan struct{})
	}
	done := make(chan struct{})
	s.running[c.ID] = done
	return func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		delete(s.running, c.ID)
		close(done)
	}, Record{}, nil
}

func (s *MemStore) commit(c Claim, tx *memTx, answer *Answer) (Record, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	now := time.Now()
	if tx.effect != nil {
		if err := tx.effect(); err != nil {
			return Record{}, err
		}
	}
	r := &record{state: Pending, fingerprint: c.Fingerprint, owner: c.Owner, fence: 1, created: now,
		expires: now.Add(c.Retention), retention: c.Retention}
	s.end(r, Settlement{State: Completed, Answer: answer}, now)
	if s.records == nil {
		s.records = make(map[ID]*record)
	}
	s.records[c.ID] = r
	return r.view(c.ID, now), nil
}
