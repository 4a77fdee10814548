package proof

import (
	"strings"
	"testing"
	"time"

	"github.com/semel-go/semel/testserver"
)

func atPoint(point testserver.Point, d deed) func(int, testserver.Point) deed {
	return func(arrival int, p testserver.Point) deed {
		if arrival == 1 && p == point {
			return d
		}
		return deed{}
	}
}

var (
	crash  = deed{what: "crashes", do: testserver.Crash, fatal: true}
	freeze = freezing(11 * time.Second) // beyond its lease
)

// held returns whom no gate holds: those at the last points, where nothing is shared any more, if there are many callers, and
// attempts beyond the first few, which come in step for ever while everybody waits for a lease.
func unheld(callers int) func(string) bool {
	return func(name string) bool {
		last := callers > 2 && strings.HasSuffix(name, pointNames[testserver.InReply])
		return last || !strings.Contains(name, " attempt 1 ") && !strings.Contains(name, " attempt 2 ")
	}
}

func TestEverySchedule(t *testing.T) {
	effects := map[string]testserver.Effect{"once": testserver.Once, "marked": testserver.Marked, "keyed": testserver.Keyed, "transactional": testserver.Transactional}
	brief, usual := 300*time.Millisecond, 10*time.Second // the first lapses before the second attempts
	for _, c := range []struct {
		name    string
		callers int
		lease   time.Duration
		deeds   func(int, testserver.Point) deed
	}{
		{"two callers", 2, usual, nil},
		{"three callers", 3, usual, nil},
		{"two callers, the first crashes before its effect", 2, brief, atPoint(testserver.AfterClaim, crash)},
		{"two callers, the first crashes after its effect", 2, brief, atPoint(testserver.AfterEffect, crash)},
		{"two callers, the first outlives its lease before its effect", 2, brief, atPoint(testserver.AfterClaim, freeze)},
		{"two callers, the first outlives its lease after its effect", 2, usual, atPoint(testserver.AfterEffect, freeze)},
		{"two callers, the first reply is lost", 2, usual, atPoint(testserver.AfterSettle, abort())},
	} {
		for name, effect := range effects {
			t.Run(c.name+", "+name, func(t *testing.T) {
				began := time.Now()
				p := crowd(c.callers, effect, c.deeds)
				p.lease, p.unheld = c.lease, unheld(c.callers)
				r := explore(t, p, correct, 20000)
				t.Logf("%d schedules, complete %v, %v", r.runs, r.complete, time.Since(began).Round(time.Millisecond))
				if r.bad > 0 || !r.complete {
					t.Errorf("%d schedules, complete %v: %s", r.runs, r.complete, r.first)
				}
			})
		}
	}
}

// The bugs that need two at one moment are found by schedules long before random worlds find them.
func TestSchedulesFindRaces(t *testing.T) {
	for _, c := range []struct {
		mutant string
		effect testserver.Effect
		deeds  func(int, testserver.Point) deed
	}{
		{"S1", testserver.Once, nil},
		{"S1", testserver.Transactional, nil},
		{"S3", testserver.Marked, nil},
		{"S5", testserver.Keyed, atPoint(testserver.AfterClaim, sleep(2*time.Second))},
		{"S6", testserver.Keyed, atPoint(testserver.AfterEffect, freeze)},
		{"S8", testserver.Keyed, atPoint(testserver.AfterEffect, crash)},
	} {
		p := crowd(2, c.effect, c.deeds)
		p.unheld = unheld(2)
		r := explore(t, p, mutantOf(c.mutant).make, 2000)
		t.Logf("%s, kind %d: schedule %d", c.mutant, c.effect, r.runs)
		if r.bad == 0 {
			t.Errorf("%s survives %d schedules", c.mutant, r.runs)
		}
	}
}
