package proof

import (
	"fmt"
	"net/http"
	"strings"

	"github.com/semel-go/semel"
	"github.com/semel-go/semel/testserver"
)

// An invariant is what must hold in every world.
type invariant struct {
	name     string
	sentence string
	check    func(*judge)
}

var invariants = []invariant{
	{"I1", "an operation has at most one effect, and one if anybody was told that it happened", checkEffects},
	{"I2", "all answers under one key are the same, and are the answer to that request", checkAnswers},
	{"I3", "no money is made or lost", checkTotal},
	{"I4", "once nothing goes wrong any more each key has its answer at the first attempt", checkQuiet},
	{"I5", "another payload under a used key is refused at once, and leaves everything as it was", checkReuse},
	{"I6", "what callers are told never contradicts the ledger, nor says less than what they have seen", checkTruth},
	{"I7", "one handler at a time works on a key under a live claim, and a stale owner cannot settle", checkOwners},
	{"I8", "\"in progress\" is said only while somebody works on the key, or died within the lease", checkProgress},
	{"I9", "attempts keep their distance, their number and their deadline, none is hidden, and a call gives up for a reason that it names", checkPacing},
	{"I10", "a request that did not arrive whole claims nothing", checkWhole},
	{"I11", "nothing is left running, and a request's body is closed once", checkRest},
	{"I12", "no more requests arrive than were sent, and no handler runs without a claim of its own", checkAmplification},
}

func invariantOf(name string) invariant {
	for _, i := range invariants {
		if i.name == name {
			return i
		}
	}
	return invariant{name: name}
}

func checkEffects(j *judge) {
	for _, v := range j.jobs {
		if n := len(v.effects); n > 1 {
			j.breach("operation %d has had %d effects", v.n, n)
		}
		for _, c := range v.calls {
			if c.told != nil && (c.told.Outcome == semel.Applied || c.told.Outcome == semel.AppliedEarlier) && len(v.effects) == 0 {
				j.breach("call %d was told %q, and operation %d has had no effect", c.n, c.told.Outcome.String(), v.n)
			}
		}
	}
}

func checkTotal(j *judge) {
	if got := j.w.bank.Total(); got != 3*funds {
		j.breach("there are %d, and there were %d", got, 3*funds)
	}
}

func checkAnswers(j *judge) {
	owners := make(map[string]int)
	want := http.StatusCreated
	if j.w.plan.redirect == http.StatusSeeOther {
		want = http.StatusOK
	}
	for _, v := range j.jobs {
		first := ""
		for _, c := range v.calls {
			e := c.told
			if e == nil || e.Err != nil || e.Status/100 != 2 {
				continue
			}
			t, ok := parseReply(e.Body)
			switch {
			case e.Status != want:
				j.breach("call %d got %d, and not %d", c.n, e.Status, want)
			case !ok:
				j.breach("call %d got half an answer: %q", c.n, e.Body)
			case t.From != v.from || t.To != v.to || t.Amount != c.amountOf(j):
				j.breach("call %d got the answer to another request: %s", c.n, e.Body)
			case first != "" && first != e.Body:
				j.breach("operation %d has two answers: %q and %q", v.n, first, e.Body)
			case owners[e.Body] != 0 && owners[e.Body] != v.n:
				j.breach("operations %d and %d share an answer: %q", owners[e.Body], v.n, e.Body)
			}
			first, owners[e.Body] = e.Body, v.n
		}
		j.checkReplays(v)
	}
}

// checkReplays looks at what the server replays: always the same, and what the handler had said if it is a success.
func (j *judge) checkReplays(v *jobView) {
	var first *Event
	for i := range v.replies {
		r := &v.replies[i]
		if !r.Replayed || r.Note != "" {
			continue
		}
		if first == nil {
			first = r
		}
		if r.Status != first.Status || r.Body != first.Body {
			j.breach("operation %d: two replays differ: %d %q and %d %q", v.n, first.Status, first.Body, r.Status, r.Body)
		}
	}
}

func checkQuiet(j *judge) {
	for _, v := range j.jobs {
		var last *callView
		for _, c := range v.calls {
			if c.n >= audits && c.n < reuses {
				last = c
			}
		}
		if last == nil || last.told == nil {
			continue // nothing ever arrived
		}
		if n := len(last.tries); n != 1 && j.w.plan.redirect == 0 && j.w.plan.pace == 1 {
			j.breach("operation %d: it took %d attempts to get the answer", v.n, n)
		}
		if e := last.told; e.Outcome != semel.Applied && e.Outcome != semel.AppliedEarlier && !j.mayStayOpen(v, e) {
			j.breach("operation %d has no answer: %d, verdict %q, %q", v.n, e.Status, e.Verdict.String(), e.Outcome.String())
		}
	}
}

// mayStayOpen reports whether nobody needs to know how an operation ended: its owner died, or its failure is what was
// stored, and its effect may not be run again.
func (j *judge) mayStayOpen(v *jobView, e *Event) bool {
	if j.w.plan.effect == testserver.Keyed || j.w.plan.effect == testserver.Transactional {
		return false
	}
	for _, s := range v.settled {
		if s.State == testserver.Completed && s.Err == nil && e.Verdict == semel.Unresolved {
			return false // it was known already
		}
	}
	switch {
	case e.Verdict == semel.Unresolved:
		return !j.w.plan.recovers || len(v.effects) == 0
	case e.Verdict == semel.Replay:
		return e.Status >= 400
	}
	return e.Err == nil && e.Replayed && e.Status >= 400
}

func checkReuse(j *judge) {
	for _, v := range j.jobs {
		for _, c := range v.calls {
			if c.n < reuses || c.n >= lates || c.told == nil {
				continue
			}
			if n := len(c.tries); n != 1 && j.w.plan.redirect != 307 && j.w.plan.redirect != 308 {
				j.breach("operation %d: another payload took %d attempts", v.n, n)
			}
			if c.told.Verdict != semel.KeyReused || c.told.Status != http.StatusUnprocessableEntity {
				j.breach("operation %d: another payload got %d, verdict %q", v.n, c.told.Status, c.told.Verdict.String())
			}
			if n := len(v.of(reused + int64(v.n))); n > 0 {
				j.breach("operation %d: another payload moved money", v.n)
			}
		}
	}
}

func checkWhole(j *judge) {
	for _, e := range j.events {
		if e.Kind == Claimed && e.Note != "" && e.Err == nil {
			j.breach("operation %d, arrival %d: the key was claimed for half a request", e.Job, e.Arrival)
		}
	}
}

// checkRest sees to what a bubble does not: it panics itself when a goroutine is left.
func checkRest(j *judge) {
	for _, e := range j.events {
		if e.Kind == Unrested {
			j.breach("a guard does not come to rest: %v", e.Err)
		}
	}
	for _, c := range j.calls {
		streams := c.caller.streams && (c.caller.way == plain || c.caller.way == checked || c.caller.way == inHeader)
		most := 1
		if j.w.plan.redirect > 0 { // http.Client closes it itself before it follows
			most = 2
		}
		if streams && c.called != nil && (c.closed < 1 || c.closed > most) {
			j.breach("call %d: its body was closed %d times", c.n, c.closed)
		}
	}
}

func checkAmplification(j *judge) {
	for _, v := range j.jobs {
		for _, c := range v.calls {
			if a, s := len(c.arrivals), len(c.sent); a > s {
				j.breach("call %d: %d requests arrived, and %d were sent", c.n, a, s)
			}
		}
		if j.w.plan.effect == testserver.Transactional {
			continue
		}
		if b, c := len(v.began), len(v.claims); b > c {
			j.breach("operation %d: the handler ran %d times under %d claims", v.n, b, c)
		}
	}
}

// report is what a failing world prints: how to see it again, what it has broken, and what happened.
func report(w *world, s Seed, test string, found []breach) string {
	var b strings.Builder
	fmt.Fprintf(&b, "SEMEL_SEED=%d go test -run '^%s$' .\n", s, test)
	for _, f := range found {
		fmt.Fprintf(&b, "  %s\n    (%s: %s)\n", f, f.rule, invariantOf(f.rule).sentence)
	}
	if w != nil {
		fmt.Fprintf(&b, "a world of kind %d, direct %v, wrapped %v, redirect %d\n%s", w.plan.effect, w.plan.direct, w.plan.wrapped, w.plan.redirect, w.history)
	}
	return b.String()
}
