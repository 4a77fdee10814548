package semel

import (
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// clients.md 34: ten thousand samples of each wait stay in their band, around its middle, and grow.
func TestDefaultWaitsStayInTheirBand(t *testing.T) {
	const samples, waits = 10_000, 12
	all := make([][]time.Duration, waits)
	for range samples {
		b := newBackoff()
		for n := range waits {
			all[n] = append(all[n], b.NextBackOff())
		}
	}
	var before time.Duration
	for n, got := range all {
		nominal := min(100*time.Millisecond<<n, 20*time.Second*2/3)
		slices.Sort(got)
		median, low, high := got[samples/2], got[0], got[samples-1]
		require.GreaterOrEqual(t, low, nominal/2, "wait %d", n)
		require.LessOrEqual(t, high, min(nominal*3/2, 20*time.Second), "wait %d", n)
		require.InEpsilon(t, nominal, median, 0.05, "wait %d", n)
		require.Greater(t, high-low, nominal*9/10, "wait %d is hardly jittered", n)
		if nominal > before {
			require.Greater(t, median, before, "wait %d does not grow", n)
		}
		before = nominal
	}
}

// clients.md 35: the schedule neither ends nor overflows, however long it is asked.
func TestDefaultWaitsNeverOverflowOrEnd(t *testing.T) {
	b := newBackoff()
	for n := range 3000 {
		wait := b.NextBackOff()
		require.GreaterOrEqual(t, wait, 50*time.Millisecond, "wait %d", n)
		require.LessOrEqual(t, wait, 20*time.Second, "wait %d", n)
	}
}

func TestTwoOperationsDoNotShareASchedule(t *testing.T) {
	used := newBackoff()
	for range 20 {
		used.NextBackOff()
	}
	require.LessOrEqual(t, newBackoff().NextBackOff(), 150*time.Millisecond)
}
