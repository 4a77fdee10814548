package proof

import (
	"context"
	"time"

	"github.com/semel-go/semel/testserver"
)

// A spy writes down what a guard and its store tell each other. When the guard's process has died it reaches nothing.
type spy struct {
	testserver.Transactor
	process *process
}

func (s *spy) Claim(ctx context.Context, c testserver.Claim) (testserver.Record, error) {
	if s.process.dead.Load() {
		return testserver.Record{}, errDead
	}
	rec, err := s.Transactor.Claim(ctx, c)
	s.claimed(ctx, c, rec, err)
	return rec, err
}

func (s *spy) claimed(ctx context.Context, c testserver.Claim, rec testserver.Record, err error) {
	a := arrivalIn(ctx)
	mine := err == nil && rec.HeldBy(c.Owner)
	e := Event{Kind: Claimed, Job: a.job, Call: a.call, Try: a.try, Arrival: a.n, Copy: a.copy, ID: c.ID, Hold: rec.Hold(), State: rec.State, Mine: mine, Err: err}
	if a.short.Load() {
		e.Note = "of a body that did not arrive whole"
	}
	s.process.world.history.add(e)
}

// givenUp is the lease by which an owner gives its claim up. It does not care for the answer.
const givenUp = time.Millisecond

func (s *spy) Renew(ctx context.Context, lease time.Duration, holds []testserver.Hold) ([]testserver.Renewal, error) {
	if s.process.dead.Load() {
		return nil, errDead
	}
	w := s.process.world
	asked := w.history.now()
	renewals, err := s.Transactor.Renew(ctx, lease, holds)
	for i, h := range holds {
		if lease <= givenUp || err == nil && renewals[i] == testserver.Renewed {
			w.history.add(Event{Kind: Renewed, ID: h.ID, Hold: h, Since: asked, After: lease})
		}
	}
	return renewals, err
}

func (s *spy) Settle(ctx context.Context, h testserver.Hold, e testserver.Settlement) error {
	if s.process.dead.Load() {
		return errDead
	}
	err := s.Transactor.Settle(ctx, h, e)
	s.process.world.history.add(Event{Kind: Settled, ID: h.ID, Hold: h, State: e.State, Err: err})
	return err
}

func (s *spy) Look(ctx context.Context, id testserver.ID) (testserver.Record, error) {
	if s.process.dead.Load() {
		return testserver.Record{}, errDead
	}
	return s.Transactor.Look(ctx, id)
}

func (s *spy) Wait(ctx context.Context, id testserver.ID) error {
	if s.process.dead.Load() {
		return errDead
	}
	return s.Transactor.Wait(ctx, id)
}

func (s *spy) Transact(ctx context.Context, c testserver.Claim, wait time.Duration, do work) (rec testserver.Record, err error) {
	if s.process.dead.Load() {
		return testserver.Record{}, errDead
	}
	own := testserver.Record{ID: c.ID, State: testserver.Pending, Owner: c.Owner}
	entered := false
	defer func() { // the work may panic
		if entered {
			s.process.world.history.add(Event{Kind: Settled, ID: c.ID, Hold: own.Hold(), State: rec.State})
		} else {
			s.claimed(ctx, c, rec, err)
		}
	}()
	return s.Transactor.Transact(ctx, c, wait, func(ctx context.Context) (*testserver.Answer, error) {
		if !entered { // it may run again
			entered = true
			s.claimed(ctx, c, own, nil)
		}
		a, err := do(ctx)
		if s.process.dead.Load() {
			return nil, errDead
		}
		return a, err
	})
}

// A storeCall names a method of the store, for faults.
type storeCall int

const (
	claimCall storeCall = iota
	renewCall
	settleCall
	lookCall
	transactCall
)

// A storeFault is what happens to one call of the store.
type storeFault int

const (
	well   storeFault = iota
	down              // it is not reached
	silent            // it does it, and its answer is lost
)

// shakyStore is a store that is not always there.
type shakyStore struct {
	testserver.Transactor
	world *world
}

// storeFault makes a fifth of the worlds have a shaky store.
func (s Seed) storeFault(call storeCall, n int) storeFault {
	if !s.Chance(0.2, "shaky") {
		return well
	}
	switch x := s.Part("store", int(call), n); {
	case x < 0.08:
		return down
	case x < 0.16 && call != lookCall:
		return silent
	}
	return well
}
