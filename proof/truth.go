package proof

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"strings"
	"sync"
	"time"

	"github.com/semel-go/semel"
)

// A truthTable counts what callers were told against what the ledger says.
type truthTable struct {
	mu    sync.Mutex
	cells map[[2]string]int
}

// What the ledger says of a payload under its key, seen from the time at which the caller was told.
const (
	noEffect = "no effect, ever"
	had      = "effect before"
	later    = "effect later"           // by something that was under way
	renewed  = "effect of a later call" // which had not begun
	ofCopy   = "effect of a copy"       // that the network had made of a request
)

var truths = []string{noEffect, had, later, renewed, ofCopy}

func (t *truthTable) count(told, truth string) {
	if t == nil {
		return
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.cells == nil {
		t.cells = make(map[[2]string]int)
	}
	t.cells[[2]string{told, truth}]++
}

func (t *truthTable) String() string {
	var b strings.Builder
	fmt.Fprintf(&b, "%-26s", "told")
	for _, truth := range truths {
		fmt.Fprintf(&b, "%24s", truth)
	}
	b.WriteString("\n")
	for _, told := range []string{"an answer of 2xx", "an answer of 4xx", "not sent", "not applied", "applied", "applied earlier", "unknown"} {
		fmt.Fprintf(&b, "%-26s", told)
		for _, truth := range truths {
			fmt.Fprintf(&b, "%24d", t.cells[[2]string{told, truth}])
		}
		b.WriteString("\n")
	}
	return b.String()
}

// checkTruth is I6: what callers are told does not contradict the ledger, and is not less than what they have seen.
func checkTruth(j *judge) {
	for _, v := range j.jobs {
		for _, c := range v.calls {
			switch {
			case c.told == nil:
				j.breach("call %d: its caller was never told anything", c.n)
			case c.told.Note != "":
				j.breach("call %d: %s", c.n, c.told.Note)
			default:
				j.believe(c)
			}
		}
	}
}

// believe holds what a caller was told against the truth.
func (j *judge) believe(c *callView) {
	e := c.told
	truth := j.truth(c)
	told := e.Outcome.String()
	if e.Err == nil {
		told = fmt.Sprintf("an answer of %dxx", e.Status/100)
		if e.Status/100 == 3 {
			told = "an answer of 4xx" // a redirect that is not followed is a refusal, too
		}
	}
	if c.n < audits {
		j.table.count(told, truth)
	}
	switch e.Outcome {
	case semel.NotSent, semel.NotApplied:
		if truth == had || truth == later {
			j.breach("call %d was told %q, but there is an %s", c.n, told, truth)
		}
		if e.Outcome == semel.NotSent && len(c.arrivals) > 0 {
			j.breach("call %d was told %q, but its request arrived", c.n, told)
		}
	case semel.Applied, semel.AppliedEarlier:
		if truth != had {
			j.breach("call %d was told %q, but the ledger says: %s", c.n, told, truth)
		}
	case semel.Unknown:
		if c.caller.way == checked && c.caller.timeout > 0 {
			return // http.Client makes text of the error, and Check can only say that it does not know
		}
		if known, settled := j.settled(c); settled {
			j.breach("call %d was told %q, but what it saw means %q", c.n, told, known.String())
		}
	}
}

// truth says how the ledger stands to the payload of a call.
func (j *judge) truth(c *callView) string {
	truth := noEffect
	for _, f := range c.job.of(c.amountOf(j)) {
		switch {
		case f.at <= c.told.At && f.cause != nil && f.cause.Copy && truth == noEffect && c.told.Outcome != semel.Applied && c.told.Outcome != semel.AppliedEarlier:
			truth = ofCopy
		case f.at <= c.told.At:
			return had
		case f.cause == nil, !f.cause.Copy && j.begunBy(f.cause.Call, c.told.At):
			truth = later
		case f.cause.Copy && truth == noEffect:
			truth = ofCopy
		case truth == noEffect:
			truth = renewed
		}
	}
	return truth
}

func (j *judge) begunBy(call int, at time.Duration) bool {
	c := j.calls[call]
	return c == nil || c.called == nil || c.called.At <= at
}

// settled says what the caller's own attempts prove, by what came over the wire and nothing that semel says of it.
func (j *judge) settled(c *callView) (semel.Outcome, bool) {
	tries, foreign := j.seen(c)
	refused, open := false, foreign
	for _, t := range tries {
		code := j.code(t)
		switch original := afterSpace(code); {
		case t.Try >= answered:
		case t.Status >= 200 && t.Status < 300, t.Status == http.StatusSeeOther && t.Err == nil,
			t.Status == http.StatusGone && t.Err == nil && (original[0] == '2' || original[0] == '3'):
			return semel.Applied, true
		case t.Err == nil && (t.Replayed && t.Status >= 400 && t.Status < 500 || t.Status == http.StatusGone && original[0] == '4'):
			return semel.NotApplied, true
		case t.Err != nil && t.Status == 0 && j.unsent(c, t):
		case t.Err == nil && t.Status == http.StatusConflict && (code == "in_progress" || code == "outcome_unknown"):
			open = true
		case t.Err == nil && t.Status >= 307 && t.Status < 500 && t.Status != http.StatusRequestTimeout:
			refused = true
		default:
			open = true
		}
	}
	switch {
	case open:
		return semel.Unknown, false
	case refused:
		return semel.NotApplied, true
	case len(tries) > 0:
		return semel.NotSent, true
	}
	return semel.Unknown, false // nothing was tried: the context had ended, or it was refused here
}

// afterSpace returns the original status in a tombstone's code; never empty.
func afterSpace(code string) string {
	_, status, _ := strings.Cut(code, " ")
	return status + " "
}

// seen returns the attempts that the operation of a call had made by the time its caller was told, and whether others may
// have sent something under its key.
func (j *judge) seen(c *callView) (tries []Event, foreign bool) {
	tries = c.tries
	switch c.caller.way {
	case inHeader, inContext, inOp:
		return tries, true
	case restarted:
		return tries, c.n != c.caller.call
	case bound, shared:
		tries = nil
		for _, o := range c.job.calls {
			if o.n >= audits || o.called == nil || o.called.At > c.told.At {
				continue
			}
			if o != c && (o.told == nil || o.told.At >= c.told.At) {
				return nil, true // still under way
			}
			tries = append(tries, o.tries...)
		}
	}
	return tries, false
}

// unsent reports whether the attempt provably got no connection. Behind a base that semel does not know only a failed dial
// proves it.
func (j *judge) unsent(c *callView, t Event) bool {
	for _, at := range j.calls[t.Call].sent {
		if at >= t.Since-j.w.plan.blur() && at <= t.At {
			return false
		}
	}
	if !j.w.plan.direct && !j.w.plan.wrapped {
		return true
	}
	var dial *net.OpError
	cancelled := errors.Is(t.Err, context.Canceled) || errors.Is(t.Err, context.DeadlineExceeded)
	return !cancelled && errors.As(t.Err, &dial) && dial.Op == "dial"
}

// code returns the problem code of the reply that an attempt got.
func (j *judge) code(t Event) string { return j.reply(t).Code }

// reply returns what the server wrote to an attempt that got a reply; an empty event if it got none.
func (j *judge) reply(t Event) Event {
	for _, r := range j.calls[t.Call].job.replies {
		if r.Call == t.Call && r.Try == t.Try && !r.Copy && r.Status == t.Status {
			return r
		}
	}
	return Event{}
}
