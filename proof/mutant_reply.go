package proof

import (
	"context"
	"sync"
	"time"

	"github.com/semel-go/semel/testserver"
)

// changedReplay changes what is replayed.
func changedReplay(change func(*testserver.Answer)) func(*world) defect {
	return onStore(func(_ *world, s inner) inner { return changing{s, change} })
}

type changing struct {
	inner
	change func(*testserver.Answer)
}

func (s changing) changed(c testserver.Claim, rec testserver.Record) testserver.Record {
	if rec.State == testserver.Completed && rec.Owner != c.Owner && rec.Answer.Status < 400 {
		a := *rec.Answer
		a.Body = append([]byte(nil), a.Body...)
		s.change(&a)
		rec.Answer = &a
	}
	return rec
}

func (s changing) Claim(ctx context.Context, c testserver.Claim) (testserver.Record, error) {
	rec, err := s.inner.Claim(ctx, c)
	return s.changed(c, rec), err
}

func (s changing) Transact(ctx context.Context, c testserver.Claim, wait time.Duration, do work) (testserver.Record, error) {
	rec, err := s.inner.Transact(ctx, c, wait, do)
	return s.changed(c, rec), err
}

// storedLate says that an answer is stored, and stores it a moment later, if nothing happens in between.
func storedLate(w *world) defect {
	late := &lateStore{world: w, lost: make(map[testserver.ID]bool)}
	return defect{
		onStore: func(s testserver.Transactor) testserver.Transactor { late.inner = s; return late },
		onFault: func(fault testserver.Fault) testserver.Fault {
			return func(ctx context.Context, p testserver.Point, v testserver.Visit) error {
				err := fault(ctx, p, v)
				if err != nil && (p == testserver.AfterSettle || p == testserver.InReply) {
					late.lose(v.ID)
				}
				return err
			}
		},
	}
}

type lateStore struct {
	inner
	world *world
	mu    sync.Mutex
	lost  map[testserver.ID]bool
}

func (s *lateStore) lose(id testserver.ID) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.lost[id] = true
}

func (s *lateStore) Settle(ctx context.Context, h testserver.Hold, e testserver.Settlement) error {
	if e.State != testserver.Completed {
		return s.inner.Settle(ctx, h, e)
	}
	s.mu.Lock()
	delete(s.lost, h.ID)
	s.mu.Unlock()
	p := s.world.server.Load()
	s.world.background.Go(func() {
		time.Sleep(50 * time.Millisecond)
		s.mu.Lock()
		lost := s.lost[h.ID]
		s.mu.Unlock()
		if !lost && p != nil && !p.dead.Load() {
			s.inner.Settle(context.WithoutCancel(ctx), h, e)
		}
	})
	return nil
}
