// Command mutate is a second opinion on the tests: it changes the client and the server at random, one small change at a
// time, and counts which tests notice. Nobody chose the changes, unlike those of the kill matrix. It runs from the
// repository's root, changes no file, and ends after -for:
//
//	go run ./proof/mutate -for 20m -seed 1
//
// Every change of every function of the two packages is as likely as any other, and the seed gives their order: a run that
// is longer tries the same ones and more. A change meets all tests of the two packages and of the kit, and 500 worlds and
// the schedules, as far as they reach its line: the short ones first, those of its own package before the others. It has
// been noticed when one fails, or when they take longer than three times as long as without it, and 15 seconds. What
// nobody notices is printed: it is a test that is missing, or code that does nothing. With -only worlds it meets worlds
// and schedules alone.
package main

import (
	"cmp"
	"flag"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"sync"
	"time"
)

func main() {
	var r round
	flag.DurationVar(&r.limit, "for", 20*time.Minute, "how long to go on")
	flag.IntVar(&r.most, "n", 1<<20, "how many changes to try at most")
	flag.Uint64Var(&r.seed, "seed", 1, "chooses the changes")
	flag.IntVar(&r.at, "at", 2, "how many changes to try at a time")
	flag.StringVar(&r.only, "only", "", "the only tests to run: client, server, worlds or kit")
	flag.StringVar(&r.match, "match", "", "only changes that match this regular expression, as printed")
	flag.BoolVar(&r.verbose, "v", false, "print who noticed each change")
	flag.Parse()
	if err := r.run(); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

// A round tries changes for a while.
type round struct {
	limit       time.Duration
	most, at    int
	seed        uint64
	only, match string
	verbose     bool

	mu    sync.Mutex
	score map[string]*tally // by folder
}

// A tally says how many changes were noticed, and by whom.
type tally struct {
	tried, late, unreached, survived int
	by                               map[string]int
}

func (r *round) run() error {
	scratch, err := os.MkdirTemp("", "mutate")
	if err != nil {
		return err
	}
	defer os.RemoveAll(scratch)
	l := &laboratory{scratch: scratch}
	for _, s := range newStages() {
		if r.only == "" || r.only == s.name {
			l.stages = append(l.stages, s)
		}
	}
	if err := l.prepare(); err != nil {
		return err
	}
	chosen, err := r.choose(l.changes)
	if err != nil {
		return err
	}
	r.score = map[string]*tally{".": {by: make(map[string]int)}, "testserver": {by: make(map[string]int)}}
	began := time.Now()
	next := make(chan *change)
	var workers sync.WaitGroup
	for range r.at {
		workers.Go(func() {
			for c := range next {
				r.count(c, l.notice(c))
			}
		})
	}
	for _, c := range chosen[:min(r.most, len(chosen))] {
		if time.Since(began) > r.limit {
			break
		}
		next <- c
	}
	close(next)
	workers.Wait()
	r.print(l.stages, time.Since(began))
	return nil
}

// choose returns the changes that compile, in the order of the seed.
func (r *round) choose(all []*change) ([]*change, error) {
	wanted, err := regexp.Compile(r.match)
	if err != nil {
		return nil, err
	}
	all = slices.Clone(all)
	none := slices.DeleteFunc(slices.Clone(all), func(c *change) bool { return len(c.forms) > 0 })
	all = slices.DeleteFunc(all, func(c *change) bool { return len(c.forms) == 0 || !wanted.MatchString(c.String()) })
	slices.SortFunc(all, func(a, b *change) int { return cmp.Compare(a.id, b.id) })
	rand.New(rand.NewPCG(r.seed, 0)).Shuffle(len(all), func(i, j int) { all[i], all[j] = all[j], all[i] })
	fmt.Printf("%d possible changes, and %d that do not compile or are constants; seed %d\n", len(all), len(none), r.seed)
	return all, nil
}

func (r *round) count(c *change, v verdict) {
	r.mu.Lock()
	defer r.mu.Unlock()
	t := r.score[filepath.Dir(c.file)]
	t.tried++
	switch {
	case !v.reached:
		t.unreached++
		fmt.Printf("unreached: %v\n", c)
	case v.stage == "":
		t.survived++
		fmt.Printf("survives: %v\n", c)
	default:
		if v.late {
			t.late++
		}
		t.by[v.stage]++
		if r.verbose {
			fmt.Printf("noticed by %s (%s, late %v): %v\n", v.test, v.stage, v.late, c)
		}
	}
}

func (r *round) print(stages []*stage, took time.Duration) {
	for _, folder := range []string{".", "testserver"} {
		t := r.score[folder]
		noticed := t.tried - t.unreached - t.survived
		fmt.Printf("%s: %d changes, %d noticed (%.0f %%)", folder, t.tried, noticed, 100*float64(noticed)/float64(max(t.tried, 1)))
		for _, s := range stages {
			fmt.Printf(", by %s %d", s.name, t.by[s.name])
		}
		fmt.Printf("; %d of them did not end; %d not reached by any test; %d noticed by none\n", t.late, t.unreached, t.survived)
	}
	fmt.Println("in", took.Round(time.Second))
}
