// Command mutate is a second opinion on the tests: it changes the client and the server at random, one small change at a
// time, and counts which tests notice. Nobody chose the changes, unlike those of the kill matrix. It runs from the
// repository's root, changes no file, and ends after -for:
//
//	go run ./proof/mutate -for 20m -seed 1
//
// Every change of every file of the two packages is as likely as any other, and the seed gives their order: a run that is
// twice as long tries the same ones and more. A change first meets the tests of its own package, then those of the other
// end, of the kit, and some worlds and schedules, until something fails or takes more than three times as long as without
// a change, and twenty seconds. What nobody notices is printed: it is a test that is missing, or code that does nothing.
// With -only worlds it meets worlds and schedules alone.
//
// The sources must not change meanwhile: run it in a clone.
package main

import (
	"flag"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"time"
)

func main() {
	limit := flag.Duration("for", 20*time.Minute, "how long to go on")
	most := flag.Int("n", 1<<20, "how many changes to try at most")
	seed := flag.Uint64("seed", 1, "chooses the changes")
	only := flag.String("only", "", "a part of the name of the only tests to run, as worlds")
	match := flag.String("match", "", "only changes whose text, as printed, matches this regular expression")
	verbose := flag.Bool("v", false, "print who noticed each change")
	flag.Parse()
	if err := judge(*limit, *most, *seed, *only, *match, *verbose); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func judge(limit time.Duration, most int, seed uint64, only, match string, verbose bool) error {
	all, files, err := everyChange(seed, match)
	if err != nil {
		return err
	}
	scratch, err := os.MkdirTemp("", "mutate")
	if err != nil {
		return err
	}
	defer os.RemoveAll(scratch)
	l := laboratory{scratch: scratch, stages: stages(only)}
	if err := l.clean(); err != nil {
		return err
	}
	fmt.Printf("%d possible changes in %d files, seed %d\n", len(all), files, seed)
	scores := make(score)
	began := time.Now()
	for _, c := range all[:min(most, len(all))] {
		if time.Since(began) > limit {
			break
		}
		v, err := l.notice(c)
		if err != nil {
			return err
		}
		scores.count(c, v)
		switch {
		case v.compiles && v.stage == "":
			fmt.Printf("survives: %s\n", c)
		case v.compiles && verbose:
			fmt.Printf("noticed by %s in %s: %s\n", v.test, v.stage, c)
		}
	}
	fmt.Printf("%v%v\n", scores, time.Since(began).Round(time.Second))
	return nil
}

// everyChange returns all changes in the order of the seed.
func everyChange(seed uint64, match string) (all []change, files int, err error) {
	wanted, err := regexp.Compile(match)
	if err != nil {
		return nil, 0, err
	}
	for _, folder := range []string{".", "testserver"} {
		names, err := filepath.Glob(filepath.Join(folder, "*.go"))
		if err != nil {
			return nil, 0, err
		}
		for _, name := range names {
			if strings.HasSuffix(name, "_test.go") {
				continue
			}
			found, err := changes(name)
			if err != nil {
				return nil, 0, err
			}
			if len(found) > 0 {
				files++
			}
			all = append(all, found...)
		}
	}
	r := rand.New(rand.NewPCG(seed, 0))
	r.Shuffle(len(all), func(i, j int) { all[i], all[j] = all[j], all[i] })
	kept := all[:0]
	for _, c := range all {
		if wanted.MatchString(c.String()) {
			kept = append(kept, c)
		}
	}
	return kept, files, nil
}

// stages are the tests that a change of a folder meets, those first that are most likely to notice.
func stages(only string) map[string][]stage {
	of := map[string][]stage{".": {client, worlds, kit}, "testserver": {server, worlds, client, kit}}
	for folder, all := range of {
		var kept []stage
		for _, s := range all {
			if strings.Contains(s.name, only) {
				kept = append(kept, s)
			}
		}
		of[folder] = kept
	}
	return of
}

// A score says by folder how many changes were noticed, and by whom.
type score map[string]*tally

type tally struct {
	tried, late, survived int
	by                    map[string]int
}

func (s score) count(c change, v verdict) {
	if !v.compiles {
		return
	}
	folder := filepath.Dir(c.file)
	t := s[folder]
	if t == nil {
		t = &tally{by: make(map[string]int)}
		s[folder] = t
	}
	t.tried++
	switch {
	case v.stage == "":
		t.survived++
	case v.late:
		t.late++
	default:
		t.by[v.stage]++
	}
}

func (s score) String() string {
	var b strings.Builder
	for _, folder := range []string{".", "testserver"} {
		t := s[folder]
		if t == nil {
			continue
		}
		fmt.Fprintf(&b, "%s: %d changes, noticed %d (%.0f %%): ", folder, t.tried, t.tried-t.survived, 100*float64(t.tried-t.survived)/float64(t.tried))
		for _, st := range []stage{client, server, worlds, kit} {
			if n := t.by[st.name]; n > 0 {
				fmt.Fprintf(&b, "by %s %d, ", st.name, n)
			}
		}
		fmt.Fprintf(&b, "did not end %d; by nobody %d\n", t.late, t.survived)
	}
	return b.String()
}
