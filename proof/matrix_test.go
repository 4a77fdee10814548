package proof

import (
	"flag"
	"fmt"
	"strings"
	"testing"
	"time"
)

var (
	kill = flag.Int("kill", 0, "count in how many of so many worlds each mutant is caught; 0: stop at the first")
	most = 2000 // worlds within which each must be caught
)

// A caught mutant is a row of the matrix.
type caught struct {
	mutant
	worlds, of, first int
	rules             map[string]int
	took              time.Duration
}

func TestMutants(t *testing.T) {
	for _, m := range mutants() {
		c := hunt(t, m)
		t.Log(c)
		if c.worlds == 0 {
			t.Errorf("%s (%s) survives %d worlds", m.name, m.what, c.of)
		}
	}
}

func TestMutantsThatMaskEachOther(t *testing.T) {
	for _, m := range pairs() {
		c := hunt(t, m)
		t.Log(c)
		if c.worlds == 0 {
			t.Errorf("%s (%s) survives %d worlds", m.name, m.what, c.of)
		}
	}
}

// hunt lets a mutant into the worlds, one after the other.
func hunt(t *testing.T, m mutant) caught {
	t.Helper()
	began := time.Now()
	c := caught{mutant: m, first: -1, rules: make(map[string]int)}
	n := most
	if *kill > 0 {
		n = *kill
	}
	for s := range n {
		w, broken := bubble(t, Seed(s).plan(), m.make)
		found := judged(w, broken, nil)
		c.of++
		if len(found) == 0 {
			continue
		}
		c.worlds++
		seen := make(map[string]bool)
		for _, f := range found {
			if !seen[f.rule] {
				seen[f.rule] = true
				c.rules[f.rule]++
			}
		}
		if c.first < 0 {
			c.first = s
			if testing.Verbose() && *kill < 0 {
				t.Log(report(w, Seed(s), t.Name(), found))
			}
		}
		if *kill == 0 {
			break
		}
	}
	c.took = time.Since(began)
	return c
}

func (c caught) String() string {
	var rules []string
	for _, i := range invariants {
		if n := c.rules[i.name]; n > 0 {
			rules = append(rules, fmt.Sprintf("%s %d", i.name, n))
		}
	}
	return fmt.Sprintf("%-8s %-50s caught by %4d of %4d worlds, first %4d, %6v: %s", c.name, c.what, c.worlds, c.of, c.first, c.took.Round(time.Millisecond), strings.Join(rules, " "))
}
