package semel

import (
	"context"
	"errors"
	"net/http"
	"net/url"
	"slices"
	"sync"
)

// An undertaking is one Do, in one allocation with the operation, the context and the request that it mostly needs. What
// stands between http.Client and the Transport may make further requests on the way, such as one for a token, or the same
// one again. It remembers the operations that they were made for.
type undertaking struct {
	context.Context
	request http.Request // what Do was called with, in this context
	own     Operation    // of that, unless the caller brought one

	mu    sync.Mutex
	ops   []*Operation
	room  [1]*Operation
	light *light // of which own does not know yet how it went
}

type undertakingKey struct{}

func (u *undertaking) Value(key any) any {
	switch key {
	case undertakingKey{}, innermostKey{}:
		return u
	}
	return u.Context.Value(key)
}

func undertakingIn(ctx context.Context) *undertaking {
	u, _ := ctx.Value(undertakingKey{}).(*undertaking)
	return u
}

// all returns the operations, their histories up to date.
func (u *undertaking) all() []*Operation {
	u.mu.Lock()
	ops, l := slices.Clip(u.ops), u.light
	u.mu.Unlock()
	if l != nil {
		l.full()
	}
	return ops
}

// lighten makes the light call's operation the undertaking's own, if it is the first request and the one that was asked for.
func (u *undertaking) lighten(l *light) bool {
	u.mu.Lock()
	defer u.mu.Unlock()
	if len(u.ops) > 0 || !sameTarget(&u.request, l.req) {
		return false
	}
	u.room[0], u.light = &u.own, l
	u.ops = u.room[:]
	return true
}

// note remembers that a request was made for the operation.
func (u *undertaking) note(op *Operation) {
	u.mu.Lock()
	defer u.mu.Unlock()
	if u.ops == nil {
		u.ops = u.room[:0]
	}
	if !slices.Contains(u.ops, op) {
		u.ops = append(u.ops, op)
	}
}

// find returns the operation that the request belongs to, nil if it begins another one. The same request again is the same
// operation: a layer above repeats it.
func (u *undertaking) find(req *http.Request, header string) *Operation {
	ops := u.all()
	for _, op := range ops {
		if op.standsFor(req, header) {
			return op
		}
	}
	if !slices.Contains(ops, &u.own) && sameTarget(&u.request, req) {
		return &u.own
	}
	return nil
}

// standsFor reports whether the operation came to be by this very request.
func (op *Operation) standsFor(req *http.Request, header string) bool {
	op.lock()
	first, key := op.first, op.key
	op.unlock()
	if first == nil || header != "" && header != key || !sameTarget(first, req) {
		return false
	}
	if first.GetBody == nil || req.GetBody == nil {
		return hasBody(first) == hasBody(req) // as far as anybody can see
	}
	a, err := bindingOf(first)
	if err != nil {
		return true
	}
	b, err := bindingOf(req)
	return err != nil || a.print == b.print
}

func sameTarget(a, b *http.Request) bool {
	return methodOf(a) == methodOf(b) && (a.URL == b.URL || a.URL.String() == b.URL.String())
}

// main returns the operation of the request that was asked for, nil if nobody can tell which one that is.
func (u *undertaking) main(ops []*Operation) *Operation {
	given := operationIn(u.Context)
	switch {
	case slices.Contains(ops, &u.own):
		return &u.own
	case given != nil && (len(ops) == 0 || slices.Contains(ops, given)):
		return given
	case len(ops) == 0:
		return &u.own
	case len(ops) == 1:
		return ops[0]
	}
	return nil
}

// explain makes an *Error of what http.Client returned. That need not have one, because with a Timeout http.Client rebuilds
// errors as text, and need not have the right one, because something else may have failed on the way.
func (u *undertaking) explain(err error) *Error {
	var told *Error
	found := errors.As(err, &told)
	ops := u.all()
	op := u.main(ops)
	if found && (len(ops) == 0 || op == told.Operation) {
		return told
	}
	if op == nil {
		for _, other := range ops {
			if o := other.Outcome(); o != NotSent && o != NotApplied {
				return &Error{Operation: other, Err: hide(bare(err))} // Unknown: it may be the one
			}
		}
		if op = ops[len(ops)-1]; found {
			return told
		}
	}
	return op.explain(bare(err), len(ops) > 0)
}

// explain makes an *Error of an err that says nothing of the operation. Unless a Transport had it, nobody knows who sent what.
func (op *Operation) explain(err error, had bool) *Error {
	op.show()
	op.mu.Lock()
	defer op.mu.Unlock()
	if op.failed != nil {
		known := *op.failed
		known.Outcome, known.Err = op.history.outcome(), hide(join(err, known.Err))
		return &known
	}
	e := &Error{Operation: op, Attempts: int(op.history.attempts), Sends: int(op.history.sends), Err: hide(err)}
	if had && op.history.attempts > 0 {
		e.Outcome = op.history.outcome()
	}
	return e
}

// bare takes off what http.Client puts around an error: the URL, whose query may hold secrets.
func bare(err error) error {
	if u, ok := err.(*url.Error); ok {
		return mute(u.Err)
	}
	return err
}
