package testserver_test

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/semel-go/semel/testserver"
)

// servers.md B15: a store that fails at the end. The answer is sent, and settled once the store is back.
func TestASettleThatFails(t *testing.T) {
	for name, kind := range kinds {
		for when, lost := range map[string]bool{"before": false, "after": true} {
			t.Run(name+", "+when, func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					e := new(effect)
					store := flaky()
					failures := store.before
					if lost {
						failures = store.after
					}
					g := guard(e)
					g.Store, g.Effect = store, kind

					store.fail(failures, "Settle", 1)
					require.Equal(t, 201, do(g, request("once", "")).status)
					require.True(t, do(g, request("once", "")).replayed())

					store.fail(failures, "Settle", 1<<30)
					begun := time.Now()
					require.Equal(t, 201, do(g, request("long", "")).status)
					require.LessOrEqual(t, time.Since(begun), 5*time.Second)
					for range 5 {
						time.Sleep(11 * time.Second)
						if got := do(g, request("long", "")); lost {
							require.True(t, got.replayed())
						} else {
							got.is(t, 409, "in_progress") // never freed, and its lease is kept up
						}
					}
					drained := make(chan error)
					go func() { drained <- g.Drain(t.Context()) }()
					store.fail(failures, "Settle", 0)
					require.NoError(t, <-drained)
					require.True(t, do(g, request("long", "")).replayed())
					require.EqualValues(t, 2, e.runs.Load())
				})
			})
		}
	}
}

// Settling has its own time, whatever the handler's was.
func TestAClaimIsKeptUpWhileItIsSettled(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := flaky()
		g := guard(new(effect))
		g.Store, g.Deadline = store, time.Second
		store.fail(store.before, "Settle", 1<<30)
		require.Equal(t, 201, do(g, request("k", "")).status)
		for range 4 {
			time.Sleep(time.Minute)
			do(g, request("k", "")).is(t, 409, "in_progress")
		}
		store.fail(store.before, "Settle", 0)
		require.NoError(t, g.Drain(t.Context()))
		require.True(t, do(g, request("k", "")).replayed())
	})
}

func TestAStoreThatIsGoneForGood(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e := new(effect)
		store := flaky()
		g := guard(e)
		g.Store = store
		store.fail(store.before, "Settle", 1<<30)
		require.Equal(t, 201, do(g, request("k", "")).status)
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		require.ErrorIs(t, g.Drain(ctx), context.DeadlineExceeded)
		require.NoError(t, g.Drain(t.Context())) // it gives up at last
		time.Sleep(11 * time.Second)
		do(g, request("k", "")).is(t, 409, "outcome_unknown") // which is true, and not free
		require.EqualValues(t, 1, e.runs.Load())
	})
}

// servers.md B47; faults.md 27: without the store nothing runs.
func TestAStoreThatIsDown(t *testing.T) {
	for name, kind := range kinds {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				e := new(effect)
				store := flaky()
				g := guard(e)
				g.Store, g.Effect = store, kind
				store.fail(store.before, "Claim", 1<<30)
				got := do(g, request("k", ""))
				got.is(t, 503, "store_unavailable")
				require.Equal(t, "1", got.header.Get("Retry-After"))
				require.Zero(t, e.runs.Load())
				store.fail(store.before, "Claim", 1)
				require.Equal(t, 201, do(g, request("k", "")).status)
			})
		})
	}
}

// servers.md B35: the claim was made, its answer was lost.
func TestAClaimWhoseAnswerIsLost(t *testing.T) {
	for name, kind := range kinds {
		for _, later := range []time.Duration{0, time.Second, time.Hour} {
			t.Run(name+", "+later.String(), func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					e := new(effect)
					store := flaky()
					g := guard(e)
					g.Store, g.Effect = store, kind
					if later == 0 {
						store.fail(store.after, "Claim", 1)
						require.Equal(t, 201, do(g, request("k", "")).status, "asking again finds the own claim")
						return
					}
					store.fail(store.after, "Claim", 1<<30)
					do(g, request("k", "")).is(t, 503, "store_unavailable")
					do(g, request("k", "")).is(t, 503, "store_unavailable")
					store.fail(store.after, "Claim", 0)
					time.Sleep(later)
					_, err := store.Claim(t.Context(), testserver.Claim{ID: id("k"), Owner: testserver.NewOwner(), Lease: 1, Retention: time.Hour, Started: true})
					require.NoError(t, err) // somebody with another request looks in
					do(g, request("k", "other")).is(t, 422, "key_reused")

					require.Equal(t, 201, do(g, request("k", "")).status, "nothing was run under it")
					require.True(t, do(g, request("k", "")).replayed())
					require.EqualValues(t, 1, e.runs.Load())
				})
			})
		}
	}
}

// The same, after another process saw the claim lapse and called it unknown.
func TestAClaimWhoseAnswerIsLostIsNotUnknownToItsOwner(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e := new(effect)
		store := flaky()
		g, other := guard(e), guard(e)
		g.Store, other.Store = store, store
		store.fail(store.after, "Claim", 1<<30)
		do(g, request("k", "")).is(t, 503, "store_unavailable")
		store.fail(store.after, "Claim", 0)
		time.Sleep(11 * time.Second)
		do(other, request("k", "")).is(t, 409, "outcome_unknown")
		store.fail(store.before, "Renew", 1)
		do(g, request("k", "")).is(t, 503, "store_unavailable")

		all := make(chan reply, 10)
		for range 10 {
			go func() { all <- do(g, request("k", "")) }()
		}
		for range 10 {
			if got := <-all; got.status != 201 {
				require.Contains(t, []string{"in_progress", "outcome_unknown"}, got.code())
			}
		}
		require.True(t, do(other, request("k", "")).replayed())
		require.EqualValues(t, 1, e.runs.Load())
	})
}
