package pgstore_test

import (
	"context"
	"net/http"
	"testing"
	"time"

	"github.com/semel-go/semel/testserver"
	"github.com/semel-go/semel/testserver/pgstore/pgtest"
)

// eachEffect runs the test for each kind of handler, one after the other.
func eachEffect(t *testing.T, test func(t *testing.T, effect testserver.Effect)) {
	t.Helper()
	for _, effect := range []testserver.Effect{testserver.Once, testserver.Marked, testserver.Keyed, testserver.Transactional} {
		t.Run(effectNames[effect], func(t *testing.T) { test(t, effect) })
	}
}

// under performs operations from many clients while fault goes on, and judges them. It returns what became of them.
func (w *world) under(fault func(), script func(attempt int, h http.Header)) []result {
	w.t.Helper()
	ctx, stop := context.WithCancel(w.t.Context())
	done := make(chan []result)
	go func() { done <- w.load(ctx, 16, 1<<20, script) }()
	fault()
	stop()
	results := <-done
	w.judge(results)
	unknown := 0
	for _, r := range results {
		if r.unknown {
			unknown++
		}
	}
	w.t.Logf("%d operations, %d with unknown outcome", len(results), unknown)
	if unknown == len(results) {
		w.t.Error("nothing was answered")
	}
	return results
}

// faults.md 25, 26, 27, 28; servers.md B47.
func TestADatabaseThatCrashesUnderLoadLosesNothingAndDoublesNothing(t *testing.T) {
	cluster := pgtest.Start(t)
	eachEffect(t, func(t *testing.T, effect testserver.Effect) {
		w := newWorld(t, 2, cluster.DSN(t), serverSpec{Effect: effect})
		w.under(func() {
			for range 3 {
				time.Sleep(400 * time.Millisecond)
				cluster.Crash(t)
				time.Sleep(100 * time.Millisecond)
				cluster.Start(t)
			}
			time.Sleep(200 * time.Millisecond)
		}, nil)
	})
}

// faults.md 27, 31.
func TestBackendsThatAreTerminatedUnderLoadDoubleNothing(t *testing.T) {
	cluster := pgtest.Start(t, "fsync=off")
	eachEffect(t, func(t *testing.T, effect testserver.Effect) {
		w := newWorld(t, 2, cluster.DSN(t), serverSpec{Effect: effect})
		terminated := 0
		w.under(func() {
			for range 8 {
				time.Sleep(100 * time.Millisecond)
				terminated += cluster.Terminate(t)
			}
		}, nil)
		if terminated == 0 {
			t.Error("there was nothing to terminate")
		}
	})
}

// servers.md B4; faults.md 17, 32, 55.
func TestTwoProcessesThatAreAskedInTurnAnswerAsOne(t *testing.T) {
	eachEffect(t, func(t *testing.T, effect testserver.Effect) {
		w := newWorld(t, 2, pgtest.DSN(t), serverSpec{Effect: effect})
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		results := w.load(ctx, 8, 25, func(attempt int, h http.Header) {
			if attempt <= 3 { // one, the other, and the one again
				h.Set(loseHeader, "reply")
			}
		})
		w.judge(results)
		for _, r := range results {
			if r.status != http.StatusCreated || r.sent.Load() < 4 {
				t.Errorf("%s: status %d after %d attempts", r.name, r.status, r.sent.Load())
			}
		}
	})
}
