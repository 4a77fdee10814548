package testserver_test

import (
	"context"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/semel-go/semel/testserver"
)

func TestDrainWaitsForHandlersWhoseClientIsGone(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var told error
		g := guard(&effect{do: works(30*time.Second, &told)})
		require.NoError(t, g.Drain(t.Context()), "nothing is under way")
		ctx, gone := context.WithCancel(t.Context())
		go do(g, request("k", "").WithContext(ctx))
		synctest.Wait()
		gone()
		short, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		err := g.Drain(short)
		require.ErrorIs(t, err, context.DeadlineExceeded)
		require.ErrorContains(t, err, "1 operations")
		begun := time.Now()
		require.NoError(t, g.Drain(t.Context()))
		require.Equal(t, 29*time.Second, time.Since(begun))
		require.Equal(t, testserver.Completed, state(t, g, "k"))
		require.True(t, do(g, request("k", "")).replayed(), "the guard can still be used")
	})
}

// servers.md B37: expired records go in batches, and the loop ends with its context.
func TestThePurgeLoop(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := new(testserver.MemStore)
		store := flaky()
		store.Store = s
		g := guard(new(effect))
		g.Store = store
		for i := range 2500 {
			settle(t, s, claim(t, s, claimOf(fmt.Sprint(i))), "")
		}
		settle(t, s, claim(t, s, testserver.Claim{ID: id("kept"), Owner: testserver.NewOwner(), Lease: time.Second, Retention: 10 * time.Hour}), "")
		ctx, stop := context.WithCancel(t.Context())
		ended := make(chan struct{})
		go func() {
			defer close(ended)
			g.Purge(ctx)
		}()
		time.Sleep(time.Hour - time.Minute)
		store.fail(store.before, "Purge", 1) // a store that fails once is asked again
		time.Sleep(4 * time.Minute)
		stop()
		<-ended
		left, err := s.Purge(t.Context(), 10000)
		require.NoError(t, err)
		require.Zero(t, left)
		require.Equal(t, testserver.Free, state(t, g, "0"))
		require.Equal(t, testserver.Completed, state(t, g, "kept"))
		require.Greater(t, store.calls["Purge"], 40)
		require.Less(t, store.calls["Purge"], 100)
	})
}
