package testserver

import (
	"context"
	"errors"
	"fmt"
	"time"
)

// ErrLeaseLost is why a handler's context ended when somebody else may run its operation now.
var ErrLeaseLost = errors.New("testserver: the lease is lost: somebody else may run the operation now")

// errUnguarded means that a context comes from no guard.
var errUnguarded = errors.New("testserver: the context is not of a guarded request with a key")

// A run is a claim that its guard works under, or still settles. The guard's mutex guards its fields below hold.
type run struct {
	g      *Guard
	hold   Hold
	kind   Effect
	cancel context.CancelCauseFunc
	lapse  *time.Timer // ends the lease by our own clock; nil where nobody else may run the operation

	started bool      // the effect may have
	keyed   bool      // the handler knows names to make an effect idempotent by
	lost    bool      // the handler was told so
	frozen  bool      // by a fault: not renewed
	until   time.Time // not renewed after; zero: for ever
}

type runKey struct{}

func runFrom(ctx context.Context) *run {
	r, _ := ctx.Value(runKey{}).(*run)
	return r
}

// work runs the handler under the claim, settles it and answers.
func (a *attempt) work(hold Hold, lapses time.Time) {
	r, ctx, stop := a.g.start(a.r.Context(), hold, lapses)
	defer stop()
	a.run = r
	rec := newRecorder(a, r)
	ended := false
	defer func() {
		if !ended { // a panic, which goes on to the server, or runtime.Goexit
			a.g.settle(r, r.failed())
		}
	}()
	err := a.handle(ctx, rec)
	ended = true
	if errors.Is(err, ErrCrash) {
		a.g.forget(r)
		rec.abort()
	}
	settled := a.g.settle(r, r.end(rec.finish()))
	switch {
	case rec.incomplete || errors.Is(settled, ErrLost) && rec.left:
		rec.abort()
	case errors.Is(settled, ErrLost):
		a.lost()
	default:
		rec.deliver()
	}
}

// lost answers after the claim went to somebody else: with what is stored, and not with what this handler believes.
func (a *attempt) lost() {
	rec, err := a.g.look(a.r.Context(), a.claim.ID)
	switch {
	case err != nil:
		a.tell(Record{}) // somebody has it, or has had it
	case rec.State != Free && rec.Fingerprint != a.claim.Fingerprint:
		a.problem(stillUnknown) // it was freed by hand, and is another request's now
	default:
		a.tell(rec)
	}
}

// end says what becomes of the key after the handler has returned. Pending: the lease is given up, so that the next
// request runs it again.
func (r *run) end(answer *Answer, kept bool) Settlement {
	r.g.mu.Lock()
	defer r.g.mu.Unlock()
	switch {
	case !transient(answer.Status), r.kind == Once, r.kind == Marked && r.started:
		if !kept {
			return Settlement{State: Tombstone, Answer: answer}
		}
		return Settlement{State: Completed, Answer: answer}
	default:
		return r.again()
	}
}

// failed says what becomes of the key after the handler has panicked.
func (r *run) failed() Settlement {
	r.g.mu.Lock()
	defer r.g.mu.Unlock()
	if r.kind == Once || r.kind == Marked && r.started {
		return Settlement{State: Unknown}
	}
	return r.again()
}

// again frees a key under which nothing can have started. A Keyed operation that made a downstream key, or is a re-run,
// keeps its record: how old the first claim is bounds its re-runs. The guard's mutex is held.
func (r *run) again() Settlement {
	if r.kind == Keyed && (r.keyed || r.hold.Fence > 1) {
		return Settlement{State: Pending}
	}
	return Settlement{State: Free}
}

// HoldFrom returns the claim under which a guarded handler works. Its Fence grows with each new owner until the key is freed, for downstreams that
// refuse older ones; in a transaction it is 0. The context of a request without a key has none.
func HoldFrom(ctx context.Context) (Hold, bool) {
	r := runFrom(ctx)
	if r == nil {
		return Hold{}, false
	}
	r.named()
	return r.hold, true
}

// EffectStarting says that the effect of a [Marked] handler is about to start. If it returns nil, the operation will never
// be run again; otherwise the effect must not start. In the other kinds there is nothing to mark. It may be called more
// than once.
func EffectStarting(ctx context.Context) error {
	r := runFrom(ctx)
	if r == nil {
		if ctx.Value(unkeyed{}) != nil {
			return nil
		}
		return errUnguarded
	}
	if ctx.Err() != nil {
		return fmt.Errorf("testserver: key %q: too late to start the effect: %w", r.hold.ID.Key, context.Cause(ctx))
	}
	return r.mark(ctx)
}
