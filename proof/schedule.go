package proof

import (
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/semel-go/semel/semeltest"
	"github.com/semel-go/semel/testserver"
)

// A schedule is the order in which the arrivals of simultaneous callers pass the points of the server.
type schedule struct {
	picks, counts []int // at each step: which of how many
	at            int
	prefix        []int
}

// choose follows the prefix, and then takes the first.
func (s *schedule) choose(n int) int {
	pick := 0
	if s.at < len(s.prefix) {
		pick = s.prefix[s.at]
	}
	s.at++
	s.picks, s.counts = append(s.picks, pick), append(s.counts, n)
	return pick
}

// next returns the schedule after this one, depth first; nil after the last.
func (s *schedule) next() *schedule {
	for i := len(s.picks) - 1; i >= 0; i-- {
		if s.picks[i]+1 < s.counts[i] {
			return &schedule{prefix: append(append([]int(nil), s.picks[:i]...), s.picks[i]+1)}
		}
	}
	return nil
}

// crowd is a plan of so many callers that bring one key at one instant. Nothing goes wrong but the deeds.
func crowd(callers int, effect testserver.Effect, deeds func(arrival int, p testserver.Point) deed) *plan {
	j := job{n: 1, key: "the-key", from: "alice", to: "bob", amount: 101}
	for c := range callers {
		j.callers = append(j.callers, caller{call: c + 1, way: inHeader, amount: j.amount, at: time.Second + time.Duration(c)*time.Microsecond})
	}
	return &plan{
		jobs: []job{j}, pace: 1, nodes: 1, effect: effect, direct: true, lease: 10 * time.Second, attempts: 8, unlimited: true,
		deed: func(_, arrival int, p testserver.Point) deed {
			if deeds == nil {
				return deed{}
			}
			return deeds(arrival, p)
		},
		conn:   func(int) semeltest.Plan { return semeltest.Plan{} },
		copied: func(int, int) (time.Duration, bool) { return 0, false },
		shaky:  func(storeCall, int) storeFault { return well },
	}
}

// A search is what came of all schedules of a plan.
type search struct {
	runs, bad int
	complete  bool
	first     string // bad schedule, and what it has broken
}

// explore runs the plan in every schedule, up to a limit, or until the first that is bad.
func explore(t *testing.T, p *plan, d func(*world) defect, limit int) (r search) {
	t.Helper()
	for s := new(schedule); s != nil; s = s.next() {
		if r.runs == limit {
			return r
		}
		r.runs++
		var w *world
		broken := caughtPanic(func() {
			synctest.Test(t, func(*testing.T) {
				w = newWorld(p, d)
				w.gate = newGate(s.choose)
				w.gate.free = p.unheld
				w.background.Go(w.gate.run)
				w.run()
			})
		})
		if found := judged(w, broken, nil); len(found) > 0 {
			r.bad++
			if r.first == "" {
				r.first = fmt.Sprintf("schedule %d: %v\n  %v\n%s", r.runs, w.gate.passed, found, w.history)
			}
			return r
		}
	}
	r.complete = true
	return r
}

func caughtPanic(f func()) (v any) {
	defer func() { v = recover() }()
	f()
	return nil
}
