package pgtest

import (
	"runtime"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"
)

// closeLimit bounds how long a pool may take to close. Pgx itself takes up to 15 s for a connection that broke.
const closeLimit = time.Minute

// Pool opens a pool and closes it when the test ends. A connection that is not given back fails the test, with the stacks
// of all goroutines, instead of letting it wait for ever as [pgxpool.Pool.Close] does.
func Pool(tb testing.TB, config *pgxpool.Config) *pgxpool.Pool {
	tb.Helper()
	pool, err := pgxpool.NewWithConfig(tb.Context(), config)
	if err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(func() { closePool(tb, pool, closeLimit) })
	return pool
}

func closePool(tb testing.TB, pool *pgxpool.Pool, limit time.Duration) {
	tb.Helper()
	closed := make(chan struct{})
	go func() {
		defer close(closed)
		pool.Close()
	}()
	select {
	case <-closed:
	case <-time.After(limit):
		stacks := make([]byte, 1<<20)
		stacks = stacks[:runtime.Stack(stacks, true)]
		tb.Errorf("pgtest: the pool does not close, since %d of its connections were not given back within %v\n%s",
			pool.Stat().AcquiredConns(), limit, stacks)
	}
}
