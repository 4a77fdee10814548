//go:build unix

package pgstore_test

import (
	"context"
	"io"
	"net"
	"net/http"
	"os"
	"testing"
	"testing/synctest"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/semel-go/semel/testserver"
	"github.com/semel-go/semel/testserver/pgstore"
	"github.com/semel-go/semel/testserver/pgstore/pgtest"
)

// faults.md 53; servers.md B44. A server whose clock shows the year 2000 and stands still shares the database with one
// whose clock is right.
func TestAServerWithAWrongClockNeitherTakesOverTooEarlyNorExpiresAKey(t *testing.T) {
	eachEffect(t, func(t *testing.T, effect testserver.Effect) {
		dsn := pgtest.DSN(t)
		w := newWorld(t, 1, dsn, serverSpec{Effect: effect})
		wrong := startWrongClock(t, serverSpec{DSN: dsn, Effect: effect, Lease: lease, Provider: w.provider.url})
		right := w.servers[0].addr
		w.client = w.newClient(func(attempt int) string { return []string{wrong, right}[attempt%2] })

		ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
		defer cancel()
		// Each server claims keys, answers and repeats the other's answers.
		results := w.load(ctx, 4, 10, func(attempt int, h http.Header) {
			if attempt <= 3 {
				h.Set(loseHeader, "reply")
			}
		})
		// The right one dies with a claim; the wrong one waits for the lease before it takes over.
		dead := w.perform(ctx, w.newOperation(func(attempt int, h http.Header) {
			if attempt == 1 {
				h.Set(killHeader, afterClaim)
			}
		}))
		if effect != testserver.Transactional && dead.took < lease {
			t.Errorf("the claim of a dead server was taken over after %v, before the lease had ended", dead.took)
		}
		w.judge(append(results, dead))
		for _, r := range results {
			if r.status != http.StatusCreated {
				t.Errorf("%s: status %d", r.name, r.status)
			}
		}
		var n int
		err := w.db.QueryRow(ctx, `SELECT count(*) FROM semel_keys WHERE created_at < now() - interval '1 hour' OR
			lease_until NOT BETWEEN now() - interval '1 hour' AND now() + interval '1 hour' OR expires_at < now() + interval '1 hour'`).Scan(&n)
		if err != nil || n > 0 {
			t.Errorf("%d rows carry times of the wrong clock (%v)", n, err)
		}
	})
}

// startWrongClock starts a server in a bubble whose clock begins with the year 2000. As its listener waits for the
// network, which no bubble knows the end of, time does not go on there.
func startWrongClock(t *testing.T, spec serverSpec) string {
	t.Helper()
	end, stop, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	addr := make(chan string, 1)
	gone := make(chan struct{})
	go func() {
		defer close(gone)
		defer close(addr)
		synctest.Test(t, func(t *testing.T) {
			if y := time.Now().Year(); y != 2000 {
				t.Errorf("the clock shows %d", y)
			}
			l, err := net.Listen("tcp", "127.0.0.1:0")
			if err != nil {
				t.Error(err)
				return
			}
			db, err := pgxpool.New(t.Context(), spec.DSN)
			if err != nil {
				t.Error(err)
				return
			}
			store := &pgstore.Store{DB: db}
			guard := newGuard(store, spec)
			server := &http.Server{Handler: suffering{guard, false}}
			go server.Serve(l)
			addr <- l.Addr().String()
			_, _ = io.Copy(io.Discard, end) // until the test closes the other end
			server.Close()
			guard.Next.(*bank).client.CloseIdleConnections()
			store.Close()
			db.Close()
		})
	}()
	t.Cleanup(func() {
		stop.Close()
		<-gone
		end.Close()
	})
	a, ok := <-addr
	if !ok {
		t.Fatal("the server with the wrong clock does not start")
	}
	return a
}

// Durations go in, and the database's clock makes times of them.
func TestNoStatementTakesATimeFromTheProcess(t *testing.T) {
	config, err := pgxpool.ParseConfig(pgtest.DSN(t))
	if err != nil {
		t.Fatal(err)
	}
	config.MaxConns = 1 // which knows all statements, as pgx prepares what it sends
	store := &pgstore.Store{}
	store.Configure(config)
	if store.DB, err = pgxpool.NewWithConfig(t.Context(), config); err != nil {
		t.Fatal(err)
	}
	defer store.DB.Close()
	defer store.Close()
	if err := store.CreateSchema(t.Context()); err != nil {
		t.Fatal(err)
	}
	useAll(t, store)
	rows, err := store.DB.Query(t.Context(), `SELECT statement, t::text FROM pg_prepared_statements, unnest(parameter_types) t`)
	if err != nil {
		t.Fatal(err)
	}
	seen := 0
	for rows.Next() {
		var sql, kind string
		if err := rows.Scan(&sql, &kind); err != nil {
			t.Fatal(err)
		}
		seen++
		switch kind {
		case "uuid", "uuid[]", "bytea", "bytea[]", "bigint", "bigint[]", "boolean", "boolean[]", "smallint", "integer", "text":
		default:
			t.Errorf("a parameter of type %s in %s", kind, sql)
		}
	}
	if rows.Err() != nil || seen < 20 {
		t.Fatalf("saw only %d parameters (%v)", seen, rows.Err())
	}
}

// useAll calls every method of the store.
func useAll(t *testing.T, s *pgstore.Store) {
	t.Helper()
	must := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	answer := &testserver.Answer{Status: http.StatusCreated}
	claim := func(key string) testserver.Record {
		t.Helper()
		r, err := s.Claim(t.Context(), testserver.Claim{
			ID: testserver.ID{Scope: "s", Key: key}, Owner: testserver.NewOwner(), Lease: time.Microsecond, Retention: time.Microsecond,
		})
		must(err)
		return r
	}
	claim("a")
	time.Sleep(10 * time.Millisecond)
	r := claim("a") // takes it over
	_, err := s.Renew(t.Context(), time.Minute, []testserver.Hold{r.Hold()})
	must(err)
	_, err = s.Look(t.Context(), r.ID)
	must(err)
	must(s.Settle(t.Context(), r.Hold(), testserver.Settlement{State: testserver.Completed, Answer: answer}))
	time.Sleep(10 * time.Millisecond)
	must(s.Settle(t.Context(), claim("a").Hold(), testserver.Settlement{State: testserver.Free})) // expired, and claimed anew
	_, err = s.Transact(t.Context(), testserver.Claim{ID: testserver.ID{Scope: "s", Key: "b"}, Owner: testserver.NewOwner()}, time.Second,
		func(context.Context) (*testserver.Answer, error) { return answer, nil })
	must(err)
	_, err = s.Purge(t.Context(), 10)
	must(err)
}
