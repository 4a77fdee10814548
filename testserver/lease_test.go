package testserver_test

import (
	"context"
	"net/http"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/semel-go/semel/testserver"
)

var kinds = map[string]testserver.Effect{"once": testserver.Once, "marked": testserver.Marked, "keyed": testserver.Keyed}

// works is a handler that takes a while and knows when it was told to stop.
func works(d time.Duration, told *error) func(http.ResponseWriter, *http.Request) {
	return func(w http.ResponseWriter, r *http.Request) {
		select {
		case <-time.After(d):
			w.WriteHeader(http.StatusCreated)
		case <-r.Context().Done():
			*told = context.Cause(r.Context())
			w.WriteHeader(http.StatusInternalServerError)
		}
	}
}

// servers.md B8, B19: the lease bounds the detection of a crash, not how long the work takes.
func TestALivingOwnerKeepsItsClaim(t *testing.T) {
	for name, kind := range kinds {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var told error
				e := &effect{do: works(45*time.Second, &told)}
				g := guard(e)
				g.Effect = kind
				first := make(chan reply)
				go func() { first <- do(g, request("k", "")) }()
				for range 4 {
					time.Sleep(11 * time.Second)
					do(g, request("k", "")).is(t, 409, "in_progress")
				}
				require.Equal(t, 201, (<-first).status)
				require.True(t, do(g, request("k", "")).replayed())
				require.EqualValues(t, 1, e.runs.Load())
				require.NoError(t, told)
			})
		})
	}
}

// servers.md B5, B7, B9; faults.md 18, 20, 23: a dead owner's key.
func TestACrash(t *testing.T) {
	for _, tt := range []struct {
		name string
		kind testserver.Effect
		at   testserver.Point
		then string // the code after the lease; "": it runs again
	}{
		{"before the claim", testserver.Once, testserver.BeforeClaim, ""},
		{"once, after the claim", testserver.Once, testserver.AfterClaim, "outcome_unknown"},
		{"once, after the effect", testserver.Once, testserver.AfterEffect, "outcome_unknown"},
		{"marked, before the mark", testserver.Marked, testserver.AfterClaim, ""},
		{"marked, after the effect", testserver.Marked, testserver.AfterEffect, "outcome_unknown"},
		{"keyed, after the claim", testserver.Keyed, testserver.AfterClaim, ""},
		{"keyed, after the effect", testserver.Keyed, testserver.AfterEffect, ""},
	} {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				e := &effect{do: func(_ http.ResponseWriter, r *http.Request) { start(r) }}
				g := guard(e)
				g.Effect, g.Fault = tt.kind, testserver.At(tt.at, 1, testserver.Crash)
				require.Error(t, do(g, request("k", "")).err)
				if tt.at != testserver.BeforeClaim {
					got := do(g, request("k", ""))
					got.is(t, 409, "in_progress")
					require.Equal(t, "1", got.header.Get("Retry-After"))
					time.Sleep(10*time.Second - time.Nanosecond)
					do(g, request("k", "")).is(t, 409, "in_progress")
					time.Sleep(time.Nanosecond) // servers.md B6: the lease ends at its end
				}
				again := do(g, request("k", ""))
				require.Equal(t, tt.then, again.code(), again.body)
				if tt.then == "" {
					require.Equal(t, 200, again.status)
				}
				require.NoError(t, g.Drain(t.Context()))
			})
		})
	}
}

func TestCrashAfterTheAnswerIsStored(t *testing.T) {
	for _, p := range []testserver.Point{testserver.AfterSettle, testserver.InReply} {
		e := new(effect)
		g := guard(e)
		g.Fault = testserver.At(p, 1, testserver.Crash)
		require.Error(t, do(g, request("k", "")).err)
		require.True(t, do(g, request("k", "")).replayed())
		require.EqualValues(t, 1, e.runs.Load())
	}
}

// servers.md B9, B10, B44: an owner that stalls beyond its lease, in a kind that may be run again.
func TestATakeoverFencesTheFormerOwner(t *testing.T) {
	for name, kind := range map[string]testserver.Effect{"marked": testserver.Marked, "keyed": testserver.Keyed} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var fences []int64
				var told []error
				e := &effect{do: func(w http.ResponseWriter, r *http.Request) {
					hold, _ := testserver.HoldFrom(r.Context())
					fences = append(fences, hold.Fence)
					if len(fences) == 1 { // the second: it stands between the stalled first and its end
						_, _ = w.Write([]byte("new"))
						return
					}
					told = append(told, context.Cause(r.Context()))
					_, _ = w.Write([]byte("old"))
				}}
				g := guard(e)
				g.Effect, g.Fault = kind, testserver.At(testserver.AfterClaim, 1, testserver.Freeze(time.Minute))
				first := make(chan reply)
				go func() { first <- do(g, request("k", "")) }()
				time.Sleep(10 * time.Second)
				require.Equal(t, "new", do(g, request("k", "")).body)
				got := <-first
				require.Equal(t, "new", got.body)
				require.True(t, got.replayed())
				require.Equal(t, "new", do(g, request("k", "")).body)
				require.Equal(t, []int64{2, 1}, fences)
				require.Equal(t, []error{testserver.ErrLeaseLost}, told)
			})
		})
	}
}

// In a kind that may not be run again, the lapsed record is unknown, and its owner still completes it.
func TestALateEndStillCounts(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e := &effect{do: func(w http.ResponseWriter, r *http.Request) {
			require.NoError(t, r.Context().Err(), "nobody else may run it, so it goes on")
			w.WriteHeader(201)
		}}
		g := guard(e)
		g.Fault = testserver.At(testserver.AfterClaim, 1, testserver.Freeze(time.Minute/2))
		first := make(chan reply)
		go func() { first <- do(g, request("k", "")) }()
		time.Sleep(20 * time.Second)
		do(g, request("k", "")).is(t, 409, "outcome_unknown")
		got := <-first
		require.Equal(t, 201, got.status)
		require.False(t, got.replayed())
		require.True(t, do(g, request("k", "")).replayed())
		require.EqualValues(t, 1, e.runs.Load())
	})
}

// An owner that comes back in time, before anybody saw its claim lapse or after, holds it again.
func TestAClaimThatTurnedUnknownIsPendingAgainOnceItsOwnerIsBack(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var told error
		e := &effect{do: works(50*time.Second, &told)}
		store := flaky()
		g := guard(e)
		g.Store = store
		first := make(chan reply)
		go func() { first <- do(g, request("k", "")) }()
		time.Sleep(time.Second)
		store.fail(store.before, "Renew", 1<<30)
		time.Sleep(20 * time.Second)
		do(g, request("k", "")).is(t, 409, "outcome_unknown")
		store.fail(store.before, "Renew", 0)
		time.Sleep(4 * time.Second)
		do(g, request("k", "")).is(t, 409, "in_progress")
		require.Equal(t, 201, (<-first).status)
		require.EqualValues(t, 1, e.runs.Load())
	})
}

// An owner that cannot renew counts its lease from before the last renewal was asked for, by its own clock.
func TestAnOwnerThatCannotRenewStopsInTime(t *testing.T) {
	for name, kind := range map[string]testserver.Effect{"marked": testserver.Marked, "keyed": testserver.Keyed} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var told error
				begun := time.Now()
				e := &effect{do: works(time.Hour, &told)}
				store := flaky()
				g := guard(e)
				g.Store, g.Effect = store, kind
				store.fail(store.before, "Renew", 1<<30)
				got := do(g, request("k", ""))
				require.Equal(t, testserver.ErrLeaseLost, told)
				require.Less(t, time.Since(begun), 16*time.Second) // the lease, and the last tries to tell the store
				require.Equal(t, 500, got.status)

				store.fail(store.before, "Renew", 0)
				e.do = nil
				require.Equal(t, 201, do(g, request("k", "")).status)
			})
		})
	}
}

// servers.md B13; faults.md 21: the handler goes on when its client is gone, under a deadline of its own.
func TestTheHandlerDoesNotEndWithItsClient(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var told error
		e := &effect{do: works(30*time.Second, &told)}
		g := guard(e)
		ctx, gone := context.WithTimeout(t.Context(), time.Second)
		defer gone()
		require.Equal(t, 201, do(g, request("k", "").WithContext(ctx)).status)
		require.NoError(t, told)
		require.True(t, do(g, request("k", "")).replayed())
		require.EqualValues(t, 1, e.runs.Load())
	})
}

func TestTheDeadlineOfTheRoute(t *testing.T) {
	for _, tt := range []struct {
		name     string
		deadline time.Duration
		work     time.Duration
		cause    error
	}{
		{"a minute by default", 0, 61 * time.Second, context.DeadlineExceeded},
		{"within the minute", 0, 59 * time.Second, nil},
		{"its own", 2 * time.Hour, 90 * time.Minute, nil},
		{"none", -1, 24 * time.Hour, nil},
	} {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var told error
				g := guard(&effect{do: works(tt.work, &told)})
				g.Deadline = tt.deadline
				do(g, request("k", ""))
				require.Equal(t, tt.cause, told)
			})
		})
	}
}

// A handler that never returns holds its key for its deadline and a lease, not for ever.
func TestAHandlerThatNeverReturns(t *testing.T) {
	for _, tt := range []struct {
		name string
		kind testserver.Effect
		then string
	}{
		{"once", testserver.Once, "outcome_unknown"},
		{"marked, and not begun", testserver.Marked, ""},
		{"keyed", testserver.Keyed, ""},
	} {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				release := make(chan struct{})
				e := new(effect)
				e.do = func(w http.ResponseWriter, _ *http.Request) {
					if e.runs.Load() == 1 {
						<-release
					}
					w.WriteHeader(201)
				}
				g := guard(e)
				g.Effect = tt.kind
				first := make(chan reply)
				go func() { first <- do(g, request("k", "")) }()
				time.Sleep(time.Minute)
				do(g, request("k", "")).is(t, 409, "in_progress")
				time.Sleep(21 * time.Second)
				again := do(g, request("k", ""))
				require.Equal(t, tt.then, again.code())
				close(release)
				late := <-first
				if tt.then == "" {
					require.Equal(t, 201, again.status)
					require.True(t, late.replayed())
				} else {
					require.Equal(t, 201, late.status)
					require.True(t, do(g, request("k", "")).replayed(), "the late end still counts")
				}
			})
		})
	}
}

func TestTheHeartbeatEndsWithTheLastClaim(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := flaky()
		g := guard(new(effect))
		g.Store = store
		for range 3 {
			require.Equal(t, 201, do(g, request("k", "")).status)
			synctest.Wait() // and no goroutine is left when the bubble ends
		}
		time.Sleep(time.Hour)
		require.Zero(t, store.calls["Renew"])
	})
}
