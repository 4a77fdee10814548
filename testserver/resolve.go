package testserver

import (
	"context"
	"errors"
	"fmt"
	"net/http"
)

// ErrNotDone is what [Guard.Recover] returns for an operation that provably has not happened.
var ErrNotDone = errors.New("testserver: the operation has not happened")

// Resolve ends an operation whose outcome is unknown, or whose owner died: with its answer, with a tombstone if the answer
// has no Status, or, if it is nil, as one that provably has not happened, so that the next request runs it. The last is
// allowed for a [Keyed] effect alone, where a late effect of the former run would be recognized by its key; otherwise it
// returns [ErrStarted]. ErrBusy means that the owner lives, ErrLost that the operation has another end.
func (g *Guard) Resolve(ctx context.Context, id ID, answer *Answer) error {
	rec, err := g.Store.Look(ctx, id)
	switch {
	case err != nil:
		return fmt.Errorf("testserver: key %q: not resolved: %w", id.Key, err)
	case rec.State == Pending && rec.Left > 0:
		return fmt.Errorf("testserver: key %q: not resolved, its owner works on it: %w", id.Key, ErrBusy)
	case rec.State == Free:
		return fmt.Errorf("testserver: key %q: there is nothing to resolve: %w", id.Key, ErrLost)
	}
	if err := g.resolve(ctx, rec, answer); err != nil {
		return fmt.Errorf("testserver: key %q: not resolved: %w", id.Key, err)
	}
	return nil
}

func (g *Guard) resolve(ctx context.Context, rec Record, answer *Answer) error {
	switch {
	case answer == nil && g.Effect != Keyed:
		return ErrStarted
	case answer == nil:
		return g.Store.Settle(ctx, rec.Hold(), Settlement{State: Free})
	case answer.Status == 0:
		return g.Store.Settle(ctx, rec.Hold(), Settlement{State: Tombstone, Answer: &Answer{Header: answer.Header}})
	}
	return g.Store.Settle(ctx, rec.Hold(), Settlement{State: Completed, Answer: answer})
}

// recover asks the hook about an unknown operation and reports whether there is something new to learn from the store.
func (a *attempt) recover(rec Record) bool {
	if a.g.Recover == nil {
		return false
	}
	r := &run{g: a.g, hold: rec.Hold(), kind: a.g.Effect, started: true}
	ctx, stop := context.WithoutCancel(a.r.Context()), context.CancelFunc(func() {})
	if d := a.g.deadline(); d > 0 {
		ctx, stop = context.WithTimeout(ctx, d)
	}
	defer stop()
	answer, err := a.g.Recover(a.request(context.WithValue(ctx, runKey{}, r)), rec)
	if answer == nil && !errors.Is(err, ErrNotDone) || err != nil && answer != nil {
		return false
	}
	err = a.g.resolve(ctx, rec, answer)
	return err == nil || errors.Is(err, ErrLost)
}

type unkeyed struct{}

// withoutKey marks a request that passes unprotected, so that EffectStarting does not refuse it.
func withoutKey(r *http.Request) *http.Request {
	return r.WithContext(context.WithValue(r.Context(), unkeyed{}, true))
}
