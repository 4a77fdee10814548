package proof

import (
	"context"
	"errors"
	"fmt"
	"sort"
	"strings"

	"github.com/semel-go/semel"
	"github.com/semel-go/semel/testserver"
)

// A tally counts in how many worlds something happened at all. A world that nothing happens in proves nothing.
type tally map[string]int

// reach is what some world out of two thousand must have come to.
var reach = []string{
	"in_progress", "outcome_unknown", "key_expired", "key_reused", "body_incomplete", "store_unavailable", "commit_in_doubt", "replayed",
	"taken over", "settled too late", "unknown is settled", "restarted", "a copy", "given up", "HTTP/2", "an answer of a later hop",
	semel.ErrAttempts.Error(), semel.ErrBudget.Error(), semel.ErrWait.Error(), semel.ErrLifetime.Error(),
	context.Canceled.Error(), context.DeadlineExceeded.Error(),
	"told not sent", "told not applied", "told applied", "told applied earlier", "told unknown",
}

// count adds what happened in the world.
func (t tally) count(w *world) {
	seen := make(map[string]bool)
	if w.plan.http2 {
		seen["HTTP/2"] = true
	}
	for _, e := range w.history.all() {
		if e.Copy {
			seen["a copy"] = true
		}
		switch e.Kind {
		case Replied:
			code, _, _ := strings.Cut(e.Code, " ")
			seen[code] = true
			seen["replayed"] = seen["replayed"] || e.Replayed
		case Claimed:
			seen["taken over"] = seen["taken over"] || e.Mine && e.Hold.Fence > 1
		case Settled:
			seen["settled too late"] = seen["settled too late"] || errors.Is(e.Err, testserver.ErrLost)
			seen["unknown is settled"] = seen["unknown is settled"] || e.State == testserver.Unknown
		case Renewed:
			seen["given up"] = seen["given up"] || e.After <= givenUp
		case Restarted:
			seen["restarted"] = true
		case Tried:
			seen["an answer of a later hop"] = seen["an answer of a later hop"] || e.Try > answered
		case Told:
			countTold(seen, e)
		default:
		}
	}
	for what, yes := range seen {
		if yes {
			t[what]++
		}
	}
}

func countTold(seen map[string]bool, e Event) {
	if e.Err == nil {
		return
	}
	seen["told "+e.Outcome.String()] = true
	for _, why := range []error{semel.ErrAttempts, semel.ErrBudget, semel.ErrWait, semel.ErrLifetime, context.Canceled, context.DeadlineExceeded} {
		if errors.Is(e.Err, why) {
			seen[why.Error()] = true
		}
	}
}

// missing returns what no world has come to.
func (t tally) missing() (what []string) {
	for _, r := range reach {
		if t[r] == 0 {
			what = append(what, r)
		}
	}
	return what
}

func (t tally) String() string {
	var parts []string
	for _, r := range reach {
		parts = append(parts, fmt.Sprintf("%s %d", r, t[r]))
	}
	sort.Strings(parts)
	return strings.Join(parts, ", ")
}
