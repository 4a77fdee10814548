package testserver

import (
	"context"
	"errors"
	"fmt"
	"time"
)

const (
	storeTimeout = 5 * time.Second // of one call of the store
	retryFirst   = 20 * time.Millisecond
	retryMost    = time.Second
)

// start begins work under a claim whose lease ends at lapses. The context is the handler's.
func (g *Guard) start(parent context.Context, hold Hold, lapses time.Time) (*run, context.Context, func()) {
	r := &run{g: g, hold: hold, kind: g.Effect}
	ctx, stop := context.WithoutCancel(parent), context.CancelFunc(func() {})
	if d := g.deadline(); d > 0 {
		ctx, stop = context.WithTimeout(ctx, d)
		r.until = lapses.Add(d)
	}
	ctx, r.cancel = context.WithCancelCause(context.WithValue(ctx, runKey{}, r))
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.runs == nil {
		g.runs = make(map[*run]struct{})
	}
	g.runs[r] = struct{}{}
	if r.kind != Once {
		r.lapse = time.AfterFunc(time.Until(lapses), r.lose)
	}
	if g.stop == nil {
		g.stop = make(chan struct{})
		go g.beat(g.stop)
	}
	return r, ctx, func() { r.cancel(nil); stop() }
}

// forget ends the renewals of a claim. It may be called more than once.
func (g *Guard) forget(r *run) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if r.lapse != nil {
		r.lapse.Stop()
	}
	delete(g.runs, r)
	if len(g.runs) == 0 && g.stop != nil {
		close(g.stop)
		g.stop = nil
	}
}

// lose tells the handler that somebody else may run its operation, unless nobody may.
func (r *run) lose() {
	r.g.mu.Lock()
	lost := r.kind != Once && !r.started
	r.lost = r.lost || lost
	r.g.mu.Unlock()
	if lost {
		r.cancel(ErrLeaseLost)
	}
}

// beat renews all claims until there are none.
func (g *Guard) beat(stop <-chan struct{}) {
	every := max(g.lease()/3, time.Millisecond)
	tick := time.NewTimer(every)
	defer tick.Stop()
	for {
		select {
		case <-stop:
			return
		case <-tick.C:
		}
		if g.renew() {
			tick.Reset(every)
		} else {
			tick.Reset(max(every/8, time.Millisecond))
		}
	}
}

// renew extends all leases and reports whether each claim was heard of.
func (g *Guard) renew() bool {
	now := time.Now()
	var runs []*run
	var holds []Hold
	g.mu.Lock()
	for r := range g.runs {
		if !r.lost && !r.frozen && (r.until.IsZero() || now.Before(r.until)) {
			runs, holds = append(runs, r), append(holds, r.hold)
		}
	}
	g.mu.Unlock()
	if len(runs) == 0 {
		return true
	}
	ctx, cancel := context.WithTimeout(context.Background(), storeTimeout)
	defer cancel()
	renewals, err := g.Store.Renew(ctx, g.lease(), holds)
	if err != nil || len(renewals) != len(holds) {
		return false
	}
	all := true
	for i, r := range runs {
		switch renewals[i] {
		case Renewed:
			r.renewed(now)
		case Lost:
			r.lose()
		default:
			all = false
		}
	}
	return all
}

// renewed notes that the lease runs from the time at which it was asked for.
func (r *run) renewed(asked time.Time) {
	r.g.mu.Lock()
	defer r.g.mu.Unlock()
	if _, held := r.g.runs[r]; held && r.lapse != nil && !r.lost && !r.started {
		r.lapse.Reset(time.Until(asked.Add(r.g.lease())))
	}
}

// mark records in the store that the effect starts, so that the operation is never run again.
func (r *run) mark(ctx context.Context) error {
	r.g.mu.Lock()
	lost, need := r.lost, r.kind == Marked && !r.started
	r.g.mu.Unlock()
	if lost {
		return ErrLeaseLost
	}
	if !need {
		return nil
	}
	hold := r.hold
	hold.Started = true
	err := retry(context.WithoutCancel(ctx), storeTimeout, func(ctx context.Context) (bool, error) {
		renewals, err := r.g.Store.Renew(ctx, r.g.lease(), []Hold{hold})
		switch {
		case err != nil:
			return false, err
		case len(renewals) != 1 || renewals[0] == Busy:
			return false, ErrBusy
		case renewals[0] == Lost:
			return true, ErrLost
		}
		return true, nil
	})
	if errors.Is(err, ErrLost) {
		r.lose()
		return ErrLeaseLost
	}
	if err != nil {
		return fmt.Errorf("testserver: key %q: the start of the effect could not be recorded, so it must not start: %w", hold.ID.Key, err)
	}
	r.g.mu.Lock()
	defer r.g.mu.Unlock()
	r.started = true
	if r.lost {
		return ErrLeaseLost // the context has ended
	}
	r.lapse.Stop()
	return nil
}

// retry calls the store until it is done or the time is used up, and returns its last error.
func retry(ctx context.Context, limit time.Duration, call func(context.Context) (done bool, err error)) error {
	ctx, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	for wait := retryFirst; ; wait = min(2*wait, retryMost) {
		one, cancel := context.WithTimeout(ctx, storeTimeout)
		done, err := call(one)
		cancel()
		if done {
			return err
		}
		select {
		case <-ctx.Done():
			return err
		case <-time.After(wait):
		}
	}
}
