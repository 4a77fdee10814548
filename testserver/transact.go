package testserver

import (
	"context"
	"errors"
	"time"
)

// errRolledBack takes back what a transaction did, without anything being wrong with it.
var errRolledBack = errors.New("testserver: rolled back because of the reply's status")

// transact lets effect, key and answer commit together. Nothing is sent before the commit is known.
func (a *attempt) transact() {
	wait := min(preferredWait(a.r.Header), orDefault(a.g.MaxWait, 10*time.Second))
	if wait > 0 && a.g.join(a.claim.ID) {
		defer a.g.part(a.claim.ID)
	} else {
		wait = 0
	}
	ctx, stop := context.WithoutCancel(a.r.Context()), context.CancelFunc(func() {})
	if d := a.g.deadline(); d > 0 {
		ctx, stop = context.WithTimeout(ctx, wait+d)
	}
	defer stop()
	a.run = &run{g: a.g, kind: Transactional, hold: Hold{ID: a.claim.ID, Owner: a.claim.Owner}}
	var rec *recorder
	got, err := a.g.Store.(Transactor).Transact(ctx, a.claim, wait, func(ctx context.Context) (*Answer, error) {
		rec = newRecorder(a, nil) // work may run again
		if err := a.handle(context.WithValue(ctx, runKey{}, a.run), rec); err != nil {
			return nil, err
		}
		answer, kept := rec.finish()
		switch {
		case rec.refused || !kept:
			return nil, errHeldBack
		case transient(answer.Status):
			return nil, errRolledBack
		}
		return answer, nil
	})
	switch {
	case err == nil && rec != nil && got.State == Completed && got.Owner == a.claim.Owner,
		errors.Is(err, errRolledBack):
		rec.deliver()
	case err == nil:
		a.tell(got)
	case errors.Is(err, ErrCrash):
		rec.abort()
	case errors.Is(err, errHeldBack):
		a.problem(replyRefused.because("Nothing has happened."))
	case errors.Is(err, ErrBusy):
		a.problem(inProgress.because("Repeat with the same key to get its answer.").after(time.Second))
	default:
		a.problem(unavailable(err))
	}
}
