package proof

import (
	"context"
	"errors"
	"net/http"
	"time"

	"github.com/semel-go/semel"
)

// longest is how long a call without a deadline may take: its attempts and the waits between them.
const longest = 30 * time.Minute

func checkPacing(j *judge) {
	for _, v := range j.jobs {
		for _, c := range v.calls {
			j.checkDistances(c)
			j.checkNumbers(c)
			j.checkReason(c)
		}
	}
}

// checkDistances: Retry-After is kept, and otherwise the schedule, but for one repeat after a connection that had gone stale.
func (j *judge) checkDistances(c *callView) {
	stale := make(map[int]bool)
	for i := 1; i < len(c.tries); i++ {
		was, is := c.tries[i-1], c.tries[i]
		hop := is.Try / hopped
		if was.Try/hopped != hop {
			continue
		}
		gap, after := is.Since-was.At, j.reply(was).After
		switch {
		case was.Err == nil && gap < after:
			j.breach("call %d came back %v after it was told to wait %v", c.n, gap, after)
		case gap >= j.w.plan.firstWait()*9/10:
		case was.Err != nil && !stale[hop]:
			stale[hop] = true
		default:
			j.breach("call %d: attempts %d and %d are %v apart", c.n, was.Try, is.Try, gap)
		}
	}
}

func (j *judge) checkNumbers(c *callView) {
	hops := make(map[int]int)
	for _, t := range c.tries {
		if t.Verdict != semel.Running {
			hops[t.Try/hopped]++
		}
	}
	for _, n := range hops {
		if n > j.w.plan.attempts {
			j.breach("call %d made %d attempts", c.n, n)
		}
	}
	seen := make(map[int]bool)
	for _, a := range c.arrivals {
		if seen[a.Try] {
			j.breach("call %d: attempt %d arrived twice", c.n, a.Try)
		}
		seen[a.Try] = true
	}
	if c.called == nil || c.told == nil || j.w.plan.pace > 1 { // a machine may be slow
		return
	}
	limit := longest
	for _, d := range []time.Duration{c.caller.deadline, c.caller.timeout, c.caller.cancel} {
		if d > 0 && c.n < audits && c.n == c.caller.call {
			limit = min(limit, d+time.Second)
		}
	}
	if took := c.told.At - c.called.At; took > limit {
		j.breach("call %d took %v, and had %v", c.n, took, limit)
	}
}

// checkReason: a call ends with an answer, or because of its limits or its context, or with a reply that a repeat would not
// better. What the reply was is what the server wrote, and not what semel made of it.
func (j *judge) checkReason(c *callView) {
	if c.told == nil || len(c.tries) == 0 {
		return
	}
	for _, reason := range []error{semel.ErrAttempts, semel.ErrPolls, semel.ErrBudget, semel.ErrWait, semel.ErrBody, semel.ErrLifetime,
		context.Canceled, context.DeadlineExceeded} {
		if errors.Is(c.told.Err, reason) {
			return
		}
	}
	last := c.tries[len(c.tries)-1]
	if last.Try >= answered || c.caller.timeout > 0 && c.told.Err != nil {
		return // another request; a reason that http.Client has made text of
	}
	switch code, s := j.code(last), last.Status; {
	case last.Err != nil, code == "in_progress", !last.Replayed && (s >= 500 || s == http.StatusTooManyRequests):
		j.breach("call %d gave up after %d %s, and says no reason: %v", c.n, s, code, c.told.Err)
	}
}
