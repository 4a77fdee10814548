package proof

import (
	"flag"
	"os"
	"strconv"
	"testing"
	"time"
)

var worlds = flag.Int("worlds", 2000, "random worlds of the correct pair")

// replays is how often a world is run again that SEMEL_SEED names: what happens at one instant has no order of its own.
const replays = 50

// seeds are those of the flag, or the one of SEMEL_SEED again and again.
func seeds(t *testing.T, n int) func(yield func(Seed) bool) {
	one, err := strconv.ParseUint(os.Getenv("SEMEL_SEED"), 10, 64)
	return func(yield func(Seed) bool) {
		for i := range n {
			if !yield(Seed(i)) {
				return
			}
		}
		for range replays {
			if err != nil || !yield(Seed(one)) {
				return
			}
		}
	}
}

func TestWorlds(t *testing.T) {
	began := time.Now()
	table := new(truthTable)
	n, events, reached := *worlds, 0, make(tally)
	if os.Getenv("SEMEL_SEED") != "" {
		n = 0
	}
	for s := range seeds(t, n) {
		w, broken := bubble(t, s.plan(), correct)
		if found := judged(w, broken, table); len(found) > 0 {
			t.Error(report(w, s, t.Name(), found))
			if os.Getenv("SEMEL_ALL") == "" {
				return
			}
		}
		events += len(w.history.events)
		reached.count(w)
	}
	d := time.Since(began)
	t.Logf("%d worlds, %.0f a second, %d events\n%s\nworlds with %s", n, float64(n)/d.Seconds(), events, table, reached)
	if what := reached.missing(); n >= 2000 && len(what) > 0 {
		t.Errorf("no world has come to %q", what)
	}
}
