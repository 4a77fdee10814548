package semel

import (
	"context"
	"errors"
)

// An ending is how an attempt ends before its time. It does what a context of the context package would, for an attempt whose
// caller's context never ends by itself and that only its flight can end: then nothing has to be made before somebody asks.
// It is guarded by the flight's mu.
type ending struct {
	done  chan struct{} // nil until asked for
	cause error         // nil until it has ended
	first *follower
}

// A follower is told of the end.
type follower struct {
	tell func()
	next *follower
}

// Done, like Err, is the caller's own where nothing else can end the attempt.
func (y *try) Done() <-chan struct{} {
	f := y.flight
	if f == nil || !f.ends {
		return y.Context.Done()
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.await().done
}

func (y *try) Err() error {
	f := y.flight
	if f == nil || !f.ends {
		return y.Context.Err()
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.await().cause != nil {
		return context.Canceled
	}
	return nil
}

// await returns the ending for somebody who waits for it, with f.mu held.
func (f *flight) await() *ending {
	e := &f.ask().ending
	if e.done == nil {
		e.done = make(chan struct{})
		if e.cause != nil {
			close(e.done)
		}
	}
	return e
}

// AfterFunc lets the context package follow the attempt without a goroutine. It calls tell, which must not block, in the
// goroutine that ends the attempt.
func (y *try) AfterFunc(tell func()) (stop func() bool) {
	f := y.flight
	if f == nil || !f.ends {
		return context.AfterFunc(y.Context, tell)
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	e := &f.ask().ending
	if e.cause != nil {
		go tell()
		return func() bool { return false }
	}
	e.first = &follower{tell, e.first}
	who := e.first
	return func() bool { return f.leave(who) }
}

// leave reports whether the follower had still been to be told.
func (f *flight) leave(who *follower) bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	for at := &f.asked.ending.first; *at != nil; at = &(*at).next {
		if *at == who {
			*at = who.next
			return true
		}
	}
	return false
}

// followed reports whether anybody waits for the end, so that it has to come.
func (f *flight) followed() bool {
	if !f.ends {
		return false
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.asked != nil && (f.asked.ending.done != nil || f.asked.ending.first != nil)
}

// end ends the attempt, if anything can.
func (f *flight) end(cause error) {
	if f.cancel != nil {
		f.cancel(cause)
	}
	if !f.ends {
		return
	}
	for who := f.close(cause); who != nil; who = who.next {
		who.tell()
	}
}

// close ends the context and returns who is to be told, once.
func (f *flight) close(cause error) *follower {
	f.mu.Lock()
	defer f.mu.Unlock()
	e := &f.ask().ending
	if e.cause != nil {
		return nil
	}
	e.cause = cause
	if e.done != nil {
		close(e.done)
	}
	who := e.first
	e.first = nil
	return who
}

// cause is why the flight ended the attempt; nil if it did not.
func (f *flight) cause() error {
	if f == nil || !f.ends {
		return nil
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.asked == nil {
		return nil
	}
	return f.asked.ending.cause
}

// because returns why the flight ended the attempt instead of an error that says no more than that it was.
func (f *flight) because(err error) error {
	if cause := f.cause(); cause != nil && errors.Is(err, context.Canceled) {
		return cause
	}
	return err
}
