package semel

import (
	"context"
	"net"
	"time"
)

// repeats is what a call keeps once its first attempt was not the last.
type repeats struct {
	backoff   Backoff
	immediate bool     // the one repeat without a wait, after a lost connection, has been used
	polls     int      // repeats while Running
	bare      int      // of them, those that only a status and the circumstances asked for
	frozen    net.Conn // a reused connection on which an attempt timed out: the next ones leave it
	failure   error    // of the attempt before; nil after a reply
	status    int      // of that reply

	second next // in the same allocation
}

// keep remembers what was wrong with the attempt.
func (r *repeats) keep(y *try) {
	if y.err == nil {
		r.failure, r.status = nil, y.resp.StatusCode
	} else {
		r.failure, r.status = y.failure(), 0
	}
}

// last is what the attempt before failed with.
func (r *repeats) last() error {
	if r.status != 0 {
		return answered(r.status)
	}
	return r.failure
}

func (r *repeats) frozenConn() net.Conn {
	if r == nil {
		return nil
	}
	return r.frozen
}

// again decides whether a further attempt follows, and after which wait. If not, the call's stop says why, unless the
// attempt brought the answer or a failure that ends the operation.
func (c *call) again(y *try) (wait time.Duration, again bool) {
	if !c.wants(y) {
		return 0, false
	}
	if ctx := c.req.Context(); ctx.Err() != nil {
		c.stop = ended(ctx)
		return 0, false
	}
	if c.repeats == nil {
		c.repeats = new(repeats)
	}
	running := y.err == nil && y.verdict == Running
	if c.stop = c.allowed(y, running); c.stop != nil {
		return 0, false
	}
	wait, c.stop = c.pause(y, running)
	if c.stop != nil {
		return 0, false
	}
	if !running && !c.pay(y) {
		c.stop = ErrBudget
		return 0, false
	}
	return wait, true
}

// wants reports whether the attempt calls for a repeat at all.
func (c *call) wants(y *try) bool {
	method := methodOf(c.req)
	repeatable := c.keyed || idempotent(method)
	if y.err == nil {
		switch {
		case y.verdict != Transient && y.verdict != Running || y.told:
			if y.verdict == Final || y.verdict == Replay {
				c.t.retryBudget().earn(c.req.URL.Host)
			}
			return false
		case repeatable:
			return true
		}
		return y.resp.StatusCode == 425 || y.resp.StatusCode == 429
	}
	switch y.fault {
	case caller, local, certificate, source, broken:
		return false
	case unsent, unprocessed:
		return true
	}
	return repeatable
}

// allowed applies the limits that do not depend on the wait.
func (c *call) allowed(y *try, running bool) error {
	r := c.repeats
	switch {
	case running && y.bare && r.bare >= 3, running && r.polls >= c.t.Retry.maxPolls():
		return ErrPolls
	case !running && int(c.attempts)-r.polls >= c.t.Retry.maxAttempts():
		return ErrAttempts
	case !c.body.repeatable():
		return ErrBody
	}
	if running {
		r.polls++
		if y.bare {
			r.bare++
		}
	}
	return nil
}

// pause is how long to wait: the schedule's next step, lengthened by what the server or the dialect asks for.
func (c *call) pause(y *try, running bool) (time.Duration, error) {
	p, r := &c.t.Retry, c.repeats
	var wait time.Duration
	if lost := y.fault == unanswered || y.fault == unprocessed; lost && y.flight.reusedConn() != nil && !r.immediate {
		r.immediate = true // the connection had gone stale: the next may be fresh at once
	} else {
		if r.backoff == nil {
			r.backoff = p.schedule()
		}
		if wait = r.backoff.NextBackOff(); wait < 0 {
			return 0, ErrAttempts
		}
		wait = min(wait, p.maxWait())
	}
	if y.err == nil {
		hint, ok := retryAfter(y.resp.Header, time.Now())
		if running && !ok {
			hint = time.Second
		}
		wait = max(wait, hint)
	}
	wait = max(wait, c.t.Dialect.MinWait)
	if wait > p.maxWait() {
		return 0, ErrWait
	}
	if deadline, ok := c.req.Context().Deadline(); ok && time.Until(deadline) <= wait {
		return 0, join(ErrWait, context.DeadlineExceeded)
	}
	if c.keyed && c.expired(wait) {
		return 0, ErrLifetime
	}
	return wait, nil
}

// expired reports whether an attempt after the wait could end after the server has forgotten the key, when it would be a
// new operation to it.
func (c *call) expired(wait time.Duration) bool {
	life := c.t.Dialect.lifetime()
	if life == Forever {
		return false
	}
	c.op.lock()
	begun := c.op.begun
	c.op.unlock()
	if begun.IsZero() {
		return false
	}
	margin := min(c.t.Retry.attemptTimeout(true)+time.Minute, life/2)
	return time.Since(begun)+wait > life-margin
}

// pay charges the repeat, and what the base sent more than once, to the budget.
func (c *call) pay(y *try) bool {
	b, timedOut := c.t.retryBudget(), y.flight.late()
	for range max(1, y.sent()) {
		if !b.take(c.req.URL.Host, timedOut) {
			return false
		}
	}
	if timedOut {
		c.repeats.frozen = or(y.flight.reusedConn(), c.repeats.frozen)
	}
	return true
}

// unpay gives back what a repeat cost that was not made after all.
func (c *call) unpay(y *try) {
	if polled := y.err == nil && y.verdict == Running; !polled {
		c.t.retryBudget().refund(c.req.URL.Host, y.flight.late())
	}
}

// wait sleeps, unless the caller's context ends first.
func (c *call) wait(d time.Duration) error {
	ctx := c.req.Context()
	if d <= 0 {
		if ctx.Err() != nil {
			return ended(ctx)
		}
		return nil
	}
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		if ctx.Err() == nil {
			return nil
		}
	case <-ctx.Done():
	case <-c.req.Cancel: //lint:ignore SA1019 http.Client's Timeout still sets it
		return context.Canceled
	}
	return ended(ctx)
}

func (t *Transport) retryBudget() *Budget {
	if t.Retry.Budget != nil {
		return t.Retry.Budget
	}
	return &t.budget
}

func (p *Policy) schedule() Backoff {
	if p.Backoff != nil {
		if b := p.Backoff(); b != nil {
			return b
		}
	}
	return newBackoff()
}
