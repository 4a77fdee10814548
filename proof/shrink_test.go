package proof

import (
	"flag"
	"fmt"
	"runtime"
	"strconv"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/semel-go/semel/testserver"
)

// A small world is drawn piece by piece, so that rapid can take pieces away from one that breaks something. The bubble is
// opened and judged within each check; what it has broken is told outside of it.
type small struct {
	effect  testserver.Effect
	callers []time.Duration // when they start
	deeds   []placed
}

// A placed deed goes wrong at a point of an arrival.
type placed struct {
	arrival int
	point   testserver.Point
	deed
}

func drawSmall(t *rapid.T) (s small) {
	s.effect = testserver.Effect(rapid.IntRange(0, 3).Draw(t, "effect"))
	starts := rapid.SliceOfN(rapid.IntRange(0, 20), 1, 3).Draw(t, "starts")
	for i, at := range starts { // never two at one instant, whose order nobody decides
		s.callers = append(s.callers, time.Duration(at)*time.Second+time.Duration(i)*time.Millisecond)
	}
	for range rapid.IntRange(0, 3).Draw(t, "deeds") {
		p := placed{
			arrival: rapid.IntRange(1, 4).Draw(t, "arrival"),
			point:   testserver.Point(rapid.IntRange(1, 5).Draw(t, "point")),
			deed:    drawDeed(t),
		}
		if p.point == testserver.AfterEffect && p.what == status(401, 0).what {
			p.deed = abort() // a handler that refuses what it has done lies, and nobody can help
		}
		s.deeds = append(s.deeds, p)
	}
	return s
}

func drawDeed(t *rapid.T) deed {
	d := time.Duration(rapid.IntRange(1, 20).Draw(t, "seconds")) * time.Second
	kinds := []deed{
		abort(), sleep(d), status(503, 0), status(500, 0), status(401, 0),
		freezing(d),
		{what: "crashes", do: testserver.Crash, fatal: true},
	}
	return kinds[rapid.IntRange(0, len(kinds)-1).Draw(t, "deed")]
}

func (s small) plan() *plan {
	p := crowd(len(s.callers), s.effect, func(arrival int, point testserver.Point) deed {
		for _, d := range s.deeds {
			if d.arrival == arrival && d.point == point {
				return d.deed
			}
		}
		return deed{}
	})
	for i, at := range s.callers {
		p.jobs[0].callers[i].at = at
	}
	return p
}

func (s small) String() string {
	parts := []string{fmt.Sprintf("kind %d, callers at %v", s.effect, s.callers)}
	for _, d := range s.deeds {
		parts = append(parts, fmt.Sprintf("arrival %d, %s: %s", d.arrival, pointNames[d.point], d.what))
	}
	return strings.Join(parts, "; ")
}

// property holds for a pair if no small world breaks anything. What the last broken one was goes into last.
func property(t *testing.T, d func(*world) defect, last *small) func(*rapid.T) {
	return func(rt *rapid.T) {
		s := drawSmall(rt)
		w, broken := bubble(t, s.plan(), d)
		if found := judged(w, broken, nil); len(found) > 0 {
			*last = s
			rt.Logf("%v\n%v\n%s", s, found, w.history)
			rt.Fatalf("%s is broken", found[0].rule) // rapid takes another text for another failure
		}
	}
}

func TestSmallWorlds(t *testing.T) {
	rapid.Check(t, property(t, correct, new(small)))
}

// A defect is shown by the smallest world that shows it.
func TestSmallWorldsShrink(t *testing.T) {
	setFlag(t, "rapid.nofailfile", "true")
	checks := 3000
	if testing.Short() {
		checks *= 5 // of which rapid then makes a fifth
	}
	setFlag(t, "rapid.checks", strconv.Itoa(checks))
	setFlag(t, "rapid.seed", "1") // what a local minimum looks like depends on where the search begins
	for _, c := range []struct {
		mutant         string
		callers, deeds int // at most
	}{
		{"S3", 2, 2}, {"S6", 2, 2}, {"S8", 2, 2}, {"S10", 2, 2}, {"S13", 2, 0}, {"C4", 2, 2},
	} {
		var last small
		quiet := &quietTB{T: t}
		done := make(chan struct{})
		go func() { // rapid ends a failed test with Goexit
			defer close(done)
			rapid.Check(quiet, property(t, mutantOf(c.mutant).make, &last))
		}()
		<-done
		t.Logf("%s: %v", c.mutant, last)
		switch {
		case !quiet.failed:
			t.Errorf("%s survives all small worlds", c.mutant)
		case len(last.callers) > c.callers || len(last.deeds) > c.deeds:
			t.Errorf("%s is shown by %v, which is not small", c.mutant, last)
		}
	}
}

func setFlag(t *testing.T, name, value string) {
	t.Helper()
	f := flag.Lookup(name)
	was := f.Value.String()
	if err := f.Value.Set(value); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { f.Value.Set(was) })
}

// quietTB is a test that may fail.
type quietTB struct {
	*testing.T
	failed bool
}

func (q *quietTB) Name() string          { return q.T.Name() }
func (q *quietTB) Log(...any)            {}
func (q *quietTB) Logf(string, ...any)   {}
func (q *quietTB) Error(...any)          { q.failed = true }
func (q *quietTB) Errorf(string, ...any) { q.failed = true }
func (q *quietTB) Fail()                 { q.failed = true }
func (q *quietTB) Failed() bool          { return q.failed }
func (q *quietTB) FailNow()              { q.failed = true; runtime.Goexit() }
func (q *quietTB) Fatal(...any)          { q.FailNow() }
func (q *quietTB) Fatalf(string, ...any) { q.FailNow() }
