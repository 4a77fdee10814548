//go:build unix

package pgstore_test

import (
	"context"
	"math/rand/v2"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/semel-go/semel/testserver"
	"github.com/semel-go/semel/testserver/pgstore"
	"github.com/semel-go/semel/testserver/pgstore/pgtest"
)

// faults.md 25, 26; servers.md B15, B35. The statements are those that change a key: in transactional mode COMMIT, else
// the claim and the settlement.
func TestAChangeThatIsLostOrWhoseAnswerIsLostIsNeitherForgottenNorDoubled(t *testing.T) {
	change := map[string]func(sql string) bool{
		"COMMIT":     isCommit,
		"claim":      func(sql string) bool { return strings.HasPrefix(sql, "INSERT") },
		"settlement": func(sql string) bool { return strings.HasPrefix(sql, "UPDATE") && strings.Contains(sql, "status = $") },
	}
	faults := map[string]wireFault{
		"lost": loseRequest, "answer lost": loseAnswer, "stalled": stall, "answer stalled": stallAnswer,
	}
	for _, tt := range []struct {
		effect testserver.Effect
		at     string
	}{
		{testserver.Transactional, "COMMIT"},
		{testserver.Keyed, "claim"}, {testserver.Keyed, "settlement"},
		{testserver.Marked, "claim"}, {testserver.Marked, "settlement"},
		{testserver.Once, "claim"}, {testserver.Once, "settlement"},
	} {
		for fault, how := range faults {
			t.Run(effectNames[tt.effect]+", "+tt.at+" "+fault, func(t *testing.T) {
				t.Parallel()
				dsn := pgtest.DSN(t)
				proxy := newFaultProxy(t, hostOf(t, dsn))
				w := newWorld(t, 2, dsn, serverSpec{Effect: tt.effect, DSN: via(t, dsn, proxy.addr())})
				var hit atomic.Int64
				proxy.Inject(func(sql string) wireFault {
					if change[tt.at](sql) && hit.Add(1) <= 2 {
						return how
					}
					return pass
				})
				ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
				defer cancel()
				results := w.load(ctx, 2, 2, nil)
				w.judge(results)
				if hit.Load() < 2 {
					t.Errorf("the fault hit %d statements", hit.Load())
				}
				for _, r := range results {
					if r.status != http.StatusCreated && !r.unknown {
						t.Errorf("%s: status %d", r.name, r.status)
					}
				}
			})
		}
	}
}

// Pgx reads from a connection that it has given up for another 15 s; the server would keep its locks as long.
func TestAStalledCOMMITDoesNotKeepItsLocks(t *testing.T) {
	dsn := pgtest.DSN(t)
	proxy := newFaultProxy(t, hostOf(t, dsn))
	db, err := pgxpool.New(t.Context(), via(t, dsn, proxy.addr()))
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	store := &pgstore.Store{DB: db, Timeout: 500 * time.Millisecond}
	defer store.Close()
	if err := store.CreateSchema(t.Context()); err != nil {
		t.Fatal(err)
	}
	direct := connectTo(t, dsn)
	if _, err := direct.Exec(t.Context(), "CREATE TABLE t AS SELECT 1 AS n"); err != nil {
		t.Fatal(err)
	}
	proxy.onCommits(1, stall)
	claim := testserver.Claim{ID: testserver.ID{Scope: "s", Key: "k"}, Owner: testserver.NewOwner(), Retention: time.Hour}
	_, err = store.Transact(t.Context(), claim, 0, func(ctx context.Context) (*testserver.Answer, error) {
		_, err := pgstore.Tx(ctx).Exec(ctx, "UPDATE t SET n = 2")
		return &testserver.Answer{Status: http.StatusCreated}, err
	})
	if err == nil {
		t.Fatal("a COMMIT that never arrived succeeded")
	}
	ctx, cancel := context.WithTimeout(t.Context(), 8*time.Second)
	defer cancel()
	if _, err := direct.Exec(ctx, "UPDATE t SET n = 3"); err != nil {
		t.Fatalf("the row is still locked: %v", err)
	}
}

// Any statement, of claims, renewals, effects, settlements and look-ups, may be hit, or its answer.
func TestWhateverStatementsAreLostNothingIsDoubled(t *testing.T) {
	eachEffect(t, func(t *testing.T, effect testserver.Effect) {
		dsn := pgtest.DSN(t)
		proxy := newFaultProxy(t, hostOf(t, dsn))
		w := newWorld(t, 2, dsn, serverSpec{Effect: effect, DSN: via(t, dsn, proxy.addr()), Conns: 16})
		var hit atomic.Int64
		proxy.Inject(func(string) wireFault {
			switch rand.IntN(100) {
			case 0:
				hit.Add(1)
				return loseRequest
			case 1, 2:
				hit.Add(1)
				return loseAnswer
			}
			return pass
		})
		results := w.load(t.Context(), 16, max(*soak/16, 20), loseEveryFifth)
		w.judge(results)
		unknown := 0
		for _, r := range results {
			if r.unknown {
				unknown++
			}
		}
		t.Logf("%d operations, %d statements hit, %d with unknown outcome", len(results), hit.Load(), unknown)
		if hit.Load() == 0 {
			t.Error("no statement was hit")
		}
	})
}
