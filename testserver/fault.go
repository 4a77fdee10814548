package testserver

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"time"
)

// A Point is a step in the life of a request with a key.
type Point int

const (
	BeforeClaim Point = iota + 1 // the request was read whole
	AfterClaim                   // the key is claimed, the handler has not run
	AfterEffect                  // the handler has returned, nothing is settled
	AfterSettle                  // everything is stored, no byte of the reply has left. Replies of the guard itself pass here, too
	InReply                      // the reply is on its way
)

// A Fault is visited at every point of every attempt. Nil lets it go on. It may sleep; it may return [ErrCrash],
// [net/http.ErrAbortHandler] to cut the connection while the server lives on, or what an [Action] of this package returns;
// any other error is answered with 500. The context is that of the request: it ends when the client is gone.
type Fault func(ctx context.Context, p Point, v Visit) error

// An Action is what a Fault does at a point.
type Action func(ctx context.Context, v Visit) error

// A Visit says which attempt of which key is at the point.
type Visit struct {
	ID      ID
	Attempt int // from 1, in the order of arrival at this guard

	a *attempt
}

// ErrCrash makes the server die, as far as this request is concerned: its connection is cut, its claim neither settled nor
// released nor renewed.
var ErrCrash = errors.New("testserver: crash")

// At acts at a point of one attempt; 0 means every attempt.
func At(p Point, attempt int, do Action) Fault {
	return func(ctx context.Context, at Point, v Visit) error {
		if at != p || attempt != 0 && attempt != v.Attempt {
			return nil
		}
		return do(ctx, v)
	}
}

// LoseReply cuts the connection when everything is done and stored, before the first byte of the reply.
func LoseReply(attempt int) Fault { return At(AfterSettle, attempt, Abort) }

// Abort cuts the connection.
func Abort(context.Context, Visit) error { return http.ErrAbortHandler }

// Crash is the server's death, see [ErrCrash].
func Crash(context.Context, Visit) error { return ErrCrash }

// Status replies with a status, and with Retry-After unless retryAfter is 0. It is rounded up to whole seconds.
func Status(code int, retryAfter time.Duration) Action {
	return func(context.Context, Visit) error { return &statusFault{code, retryAfter} }
}

// Sleep holds the attempt up, whether or not its client waits. Its lease is renewed meanwhile.
func Sleep(d time.Duration) Action {
	return func(context.Context, Visit) error {
		time.Sleep(d)
		return nil
	}
}

// Freeze holds the attempt up as if its process did not run: its lease is not renewed. A Visit that no guard made has no
// lease, and waits.
func Freeze(d time.Duration) Action {
	return func(_ context.Context, v Visit) error {
		if v.a != nil {
			v.a.freeze(true)
			defer v.a.freeze(false)
		}
		time.Sleep(d)
		return nil
	}
}

// Hang stays silent until the client is gone.
func Hang(ctx context.Context, _ Visit) error {
	<-ctx.Done()
	return http.ErrAbortHandler
}

// Cut ends the connection after n bytes of the body, at [InReply].
func Cut(n int) Action {
	return func(context.Context, Visit) error { return cutFault(n) }
}

// Twice lets the request arrive a second time, after the delay and at [BeforeClaim]. Nobody gets the reply. The copy is an
// attempt of its own. A Visit that no guard made has no request, and nothing arrives.
func Twice(delay time.Duration) Action {
	return func(_ context.Context, v Visit) error {
		if v.a != nil {
			v.a.again(delay)
		}
		return nil
	}
}

type statusFault struct {
	code       int
	retryAfter time.Duration
}

func (e *statusFault) Error() string { return fmt.Sprintf("testserver: fault: status %d", e.code) }

func (e *statusFault) answer() *Answer {
	return problem{Code: "fault", Status: e.code, Title: "A fault of the test", retryAfter: e.retryAfter}.answer()
}

type cutFault int

func (e cutFault) Error() string { return fmt.Sprintf("testserver: fault: cut after %d bytes", int(e)) }

// inject visits the faults, of which the first that does something counts. A nil fault does nothing.
func inject(faults []Fault) Fault {
	faults = slices.DeleteFunc(slices.Clone(faults), func(f Fault) bool { return f == nil })
	if len(faults) == 0 {
		return nil
	}
	return func(ctx context.Context, p Point, v Visit) error {
		for _, f := range faults {
			if err := f(ctx, p, v); err != nil {
				return err
			}
		}
		return nil
	}
}
