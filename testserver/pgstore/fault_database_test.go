//go:build unix

package pgstore_test

import (
	"context"
	"math/rand/v2"
	"net/http"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/semel-go/semel"
	"github.com/semel-go/semel/testserver"
	"github.com/semel-go/semel/testserver/pgstore"
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
	over := time.Now()
	stop()
	results := <-done
	w.judge(results)
	unknown := 0
	for _, r := range results {
		if r.unknown {
			unknown++
		}
	}
	w.t.Logf("%d operations, %d with unknown outcome; the slowest took %v once all was well again", len(results), unknown,
		slowest(results, over).Round(time.Millisecond))
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
			for _, down := range []time.Duration{0, 100 * time.Millisecond, lease + 500*time.Millisecond} {
				time.Sleep(300 * time.Millisecond)
				cluster.Crash(t)
				time.Sleep(down)
				cluster.Start(t)
			}
		}, func(_ int, h http.Header) {
			h.Set(slowHeader, rand.N(50*time.Millisecond).String()) // so that some are at work
		})
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

// servers.md B1, B2; faults.md 17. All of them send the same key at once, and one of the servers is killed meanwhile.
func TestAHundredClientsWithOneKeyGetOneAnswer(t *testing.T) {
	eachEffect(t, func(t *testing.T, effect testserver.Effect) {
		w := newWorld(t, 2, pgtest.DSN(t), serverSpec{Effect: effect, Conns: 4})
		first := w.newOperation(nil)
		start := make(chan struct{})
		results := make([]result, 100)
		var group sync.WaitGroup
		for i := range results {
			o := &operation{name: first.name, body: first.body, op: semel.NewOperation(first.op.Key())}
			o.sent.Store(int64(i)) // half of them begin at the one server, half at the other
			o.script = func(_ int, h http.Header) { h.Set(slowHeader, "200ms") }
			group.Go(func() {
				<-start
				ctx, cancel := context.WithTimeout(t.Context(), patience)
				defer cancel()
				results[i] = w.perform(ctx, o)
			})
		}
		close(start)
		time.Sleep(100 * time.Millisecond)
		w.servers[0].Kill()
		group.Wait()
		effects, _ := w.book()
		if n := len(effects[first.name]); n > 1 || n == 0 && effect != testserver.Once {
			t.Errorf("it happened %d times", n)
		}
		for _, r := range results {
			if r.receipt != results[0].receipt || r.unknown != results[0].unknown || r.status == 0 && !r.unknown {
				t.Fatalf("one was told %d %q unknown %v, another %d %q unknown %v (%v)", results[0].status, results[0].receipt, results[0].unknown,
					r.status, r.receipt, r.unknown, r.err)
			}
		}
	})
}

// Repeats that are just looking are no reason to tell each other that the operation is in progress.
func TestManyRepeatsOfATransactionThatIsDoneAllGetItsAnswer(t *testing.T) {
	dsn := pgtest.DSN(t)
	proxy := newFaultProxy(t, hostOf(t, dsn))
	proxy.delay.Store(int64(5 * time.Millisecond))
	db, err := pgxpool.New(t.Context(), via(t, dsn, proxy.addr()))
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	store := &pgstore.Store{DB: db}
	defer store.Close()
	if err := store.CreateSchema(t.Context()); err != nil {
		t.Fatal(err)
	}
	transact := func() (testserver.Record, error) {
		claim := testserver.Claim{ID: testserver.ID{Scope: "s", Key: "k"}, Owner: testserver.NewOwner(), Retention: time.Hour}
		return store.Transact(t.Context(), claim, 0, func(context.Context) (*testserver.Answer, error) {
			return &testserver.Answer{Status: http.StatusCreated}, nil
		})
	}
	if _, err := transact(); err != nil {
		t.Fatal(err)
	}
	var group sync.WaitGroup
	for range 20 {
		group.Go(func() {
			if r, err := transact(); err != nil || r.State != testserver.Completed {
				t.Errorf("state %v, %v", r.State, err)
			}
		})
	}
	group.Wait()
}

// servers.md B42; faults.md 30.
func TestUnderSerializableIsolationEachOperationIsAnsweredAndHappensOnce(t *testing.T) {
	w := newWorld(t, 2, pgtest.DSN(t), serverSpec{Effect: testserver.Transactional, Isolation: pgx.Serializable})
	results := w.load(t.Context(), 16, 20, loseEveryFifth)
	w.judge(results)
	for _, r := range results {
		if r.status != http.StatusCreated {
			t.Errorf("%s: status %d", r.name, r.status)
		}
	}
}
