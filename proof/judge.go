package proof

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/semel-go/semel/testserver"
)

// A breach is an invariant that a world has broken.
type breach struct {
	rule string // the invariant's name
	note string
}

func (b breach) String() string { return b.rule + ": " + b.note }

// A judge reads the history of a world that has ended.
type judge struct {
	w       *world
	events  []Event
	calls   map[int]*callView
	jobs    []*jobView
	calmAt  time.Duration
	table   *truthTable
	found   []breach
	current string // the invariant that is being looked at
}

// A callView is what the history says of one call.
type callView struct {
	n        int
	caller   caller
	job      *jobView
	called   *Event
	told     *Event
	tries    []Event
	sent     []time.Duration
	closed   int     // how often its body was
	arrivals []Event // without copies
}

// A jobView is what it says of one operation.
type jobView struct {
	job
	calls   []*callView
	effects []effect
	claims  []Event // that succeeded
	settled []Event
	began   []Event
	replies []Event
}

// An effect is money that moved, and for which arrival.
type effect struct {
	testserver.Transfer
	at    time.Duration
	cause *Event // the Ended of the handler; nil if none tells of it
}

// judged returns what the world has broken; broken is what its bubble says. What callers were told goes into the table.
func judged(w *world, broken any, table *truthTable) []breach {
	if broken != nil {
		return []breach{{"I11", fmt.Sprint(invariantOf("I11").sentence, ": ", broken)}}
	}
	j := &judge{w: w, events: w.history.all(), calls: make(map[int]*callView), table: table}
	j.read()
	for _, i := range invariants {
		j.current = i.name
		i.check(j)
	}
	return j.found
}

func (j *judge) breach(format string, args ...any) {
	j.found = append(j.found, breach{j.current, fmt.Sprintf(format, args...)})
}

// read sorts the events by calls and jobs.
func (j *judge) read() {
	for _, p := range j.w.plan.jobs {
		j.jobs = append(j.jobs, &jobView{job: p})
	}
	ended := make(map[int64]*Event)
	keys := make(map[testserver.ID]*jobView)
	for i := range j.events {
		e := &j.events[i]
		if e.Kind == Calm {
			j.calmAt = e.At
		}
		if e.Kind == Settled {
			if v := keys[e.ID]; v != nil {
				v.settled = append(v.settled, *e)
			}
		}
		if e.Job == 0 {
			continue
		}
		v := j.jobs[e.Job-1]
		j.readJob(v, e, keys)
		if e.Kind == Ended {
			if id := transferID(e.Body); id > 0 && ended[id] == nil {
				ended[id] = e
			}
		}
		if e.Call > 0 && !e.Copy {
			j.call(v, e.Call).read(e)
		}
	}
	for _, t := range j.w.bank.Transfers() {
		if v := j.jobOf(t.Amount); v != nil {
			v.effects = append(v.effects, effect{t, v.when(t.At.Sub(j.w.history.began), ended[t.ID]), ended[t.ID]})
		} else {
			j.current = "I2"
			j.breach("a transfer of %d that nobody asked for", t.Amount)
		}
	}
}

// when is the time of an effect. A ledger in a real database has a clock of its own, and a clock may be set meanwhile: it is
// believed as far as it fits what the handler was seen to do.
func (v *jobView) when(at time.Duration, end *Event) time.Duration {
	if end == nil {
		return at
	}
	at = min(at, end.At)
	for _, b := range v.began {
		if b.Arrival == end.Arrival && b.At <= end.At {
			at = max(at, b.At)
		}
	}
	return at
}

func (j *judge) readJob(v *jobView, e *Event, keys map[testserver.ID]*jobView) {
	switch e.Kind {
	case Claimed:
		if e.Mine {
			keys[e.ID] = v
			v.claims = append(v.claims, *e)
		}
	case Began:
		v.began = append(v.began, *e)
	case Replied:
		v.replies = append(v.replies, *e)
	default:
	}
}

func (j *judge) call(v *jobView, n int) *callView {
	c := j.calls[n]
	if c == nil {
		c = &callView{n: n, job: v, caller: caller{call: n, way: inOp, amount: v.amount}}
		for _, a := range v.callers {
			if a.call == n || a.way == restarted && a.call+1 == n {
				c.caller = a
			}
		}
		j.calls[n] = c
		v.calls = append(v.calls, c)
	}
	return c
}

func (c *callView) read(e *Event) {
	switch e.Kind {
	case Called:
		c.called = e
	case Told:
		c.told = e
	case Tried:
		c.tries = append(c.tries, *e)
	case Closed:
		c.closed++
	case Sent:
		c.sent = append(c.sent, e.At)
	case Arrived:
		c.arrivals = append(c.arrivals, *e)
	default:
	}
}

// jobOf tells by the amount whose transfer it is: no two jobs have one in common.
func (j *judge) jobOf(amount int64) *jobView {
	for _, v := range j.jobs {
		if amount == v.amount || amount == reused+int64(v.n) ||
			slices.ContainsFunc(v.callers, func(c caller) bool { return c.amount == amount }) {
			return v
		}
	}
	return nil
}

// amountOf returns the payload of a call, by its number for those of the audit.
func (c *callView) amountOf(j *judge) int64 {
	switch {
	case c.n >= lates:
		return c.job.amount
	case c.n >= reuses:
		return reused + int64(c.job.n)
	case c.n >= audits:
		return j.w.audited[c.n]
	}
	return c.caller.amount
}

// of returns the effects of one payload.
func (v *jobView) of(amount int64) (effects []effect) {
	for _, e := range v.effects {
		if e.Amount == amount {
			effects = append(effects, e)
		}
	}
	return effects
}

// transferID returns the id in the reply to a transfer, 0 if there is none.
func transferID(body string) int64 {
	t, _ := parseReply(body)
	return t.ID
}

func parseReply(body string) (t testserver.Transfer, ok bool) {
	d := json.NewDecoder(strings.NewReader(body))
	if d.Decode(&t) != nil {
		return testserver.Transfer{}, false
	}
	return t, t.ID > 0
}
