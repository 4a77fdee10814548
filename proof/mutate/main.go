// Command mutate is a second opinion on the tests: it changes the client and the server at random, one small change at a
// time, and counts which tests notice. Nobody chose the changes, unlike those of the kill matrix. It runs from the
// repository's root, changes no file, and ends after -for:
//
//	go run ./proof/mutate -for 20m -seed 1
//
// Each change is first put into random worlds and schedules (package proof). If they do not notice, the tests of the
// changed package and those of both ends together run. What nobody notices is printed: it is a test that is missing, or
// code that does nothing.
package main

import (
	"flag"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"time"
)

// sources are what is changed: everything that decides, in the client and in the guard with its store in memory.
var sources = []string{
	"binding.go", "body.go", "budget.go", "call.go", "client.go", "fault.go", "flight.go", "history.go", "keyheader.go", "operation.go",
	"prefix.go", "problem.go", "reading.go", "reply.go", "retryafter.go", "transport.go", "try.go", "wait.go",
	"testserver/attempt.go", "testserver/claim.go", "testserver/drain.go", "testserver/effect.go", "testserver/fingerprint.go",
	"testserver/guard.go", "testserver/heartbeat.go", "testserver/key.go", "testserver/memstore.go", "testserver/memtx.go",
	"testserver/recorder.go", "testserver/reply.go", "testserver/resolve.go", "testserver/run.go", "testserver/settle.go", "testserver/transact.go",
}

func main() {
	limit := flag.Duration("for", 20*time.Minute, "how long to go on")
	most := flag.Int("n", 1<<20, "how many changes to try at most")
	seed := flag.Uint64("seed", 1, "chooses the changes")
	quick := flag.Bool("quick", false, "worlds and schedules only")
	flag.Parse()
	if err := run(*limit, *most, *seed, *quick); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func run(limit time.Duration, most int, seed uint64, quick bool) error {
	var all []change
	for _, name := range sources {
		found, err := changes(name)
		if err != nil {
			return err
		}
		all = append(all, found...)
	}
	r := rand.New(rand.NewPCG(seed, 0))
	r.Shuffle(len(all), func(i, j int) { all[i], all[j] = all[j], all[i] })
	scratch, err := os.MkdirTemp("", "mutate")
	if err != nil {
		return err
	}
	defer os.RemoveAll(scratch)
	l := laboratory{scratch: scratch, quick: quick}
	if err := l.clean(); err != nil {
		return err
	}
	fmt.Printf("%d possible changes in %d files, seed %d\n", len(all), len(sources), seed)
	var score score
	end := time.Now().Add(limit)
	for _, c := range all[:min(most, len(all))] {
		if time.Now().After(end) {
			break
		}
		by, err := l.notice(c)
		if err != nil {
			return err
		}
		score.count(c, by)
	}
	fmt.Print(score)
	return nil
}

// A score says how many changes were noticed, and by whom.
type score struct{ client, server tally }

type tally struct{ tried, worlds, tests, survived int }

func (s *score) count(c change, by noticedBy) {
	t := &s.client
	if filepath.Dir(c.file) == "testserver" {
		t = &s.server
	}
	if by == nobodyCompiles {
		return
	}
	t.tried++
	switch by {
	case theWorlds:
		t.worlds++
	case theTests:
		t.tests++
	default:
		t.survived++
		fmt.Printf("survives: %s\n", c)
	}
}

func (s score) String() string {
	return fmt.Sprintf("client: %v\nserver: %v\n", s.client, s.server)
}

func (t tally) String() string {
	return fmt.Sprintf("%d changes, noticed by worlds and schedules %d, by tests %d, by nobody %d: %.0f %%, by worlds and schedules alone %.0f %%",
		t.tried, t.worlds, t.tests, t.survived, 100*float64(t.worlds+t.tests)/float64(max(t.tried, 1)), 100*float64(t.worlds)/float64(max(t.tried, 1)))
}
