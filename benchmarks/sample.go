package benchmarks

import (
	"cmp"
	"math"
	"runtime"
	"slices"
	"time"
)

// A Sample is the mean cost of one operation over a short run.
type Sample struct {
	NS, Bytes, Allocs float64
}

// Measure performs n operations and returns what one cost. It counts the allocations of the whole process.
func (r *Runner) Measure(n int) (Sample, error) {
	var before, after runtime.MemStats
	runtime.GC()
	runtime.ReadMemStats(&before)
	start := time.Now()
	for range n {
		if err := r.Do(); err != nil {
			return Sample{}, err
		}
	}
	elapsed := time.Since(start)
	runtime.ReadMemStats(&after)
	ops := float64(n)
	return Sample{
		NS:     float64(elapsed) / ops,
		Bytes:  float64(after.TotalAlloc-before.TotalAlloc) / ops,
		Allocs: float64(after.Mallocs-before.Mallocs) / ops,
	}, r.Check(uint64(n))
}

// Fit returns how many operations fill the slice of time.
func (r *Runner) Fit(slice time.Duration) (int, error) {
	for n := 16; ; n *= 4 {
		s, err := r.Measure(n)
		if err != nil {
			return 0, err
		}
		if took := time.Duration(s.NS * float64(n)); took > slice/8 {
			return max(1, int(float64(slice)/s.NS)), nil
		}
	}
}

// Median returns the middle value; it sorts the slice.
func Median[T cmp.Ordered](s []T) T { return Quantile(s, 0.5) }

// Quantile returns the value below which the fraction q of the values lies; it sorts the slice.
func Quantile[T cmp.Ordered](s []T, q float64) T {
	slices.Sort(s)
	return s[min(len(s)-1, int(q*float64(len(s))))]
}

// UpperBound returns a value that is above the median of the population with a confidence of at least 95 %, whatever its
// distribution: the order statistic of the sign test. It sorts the slice; fewer than five values give the largest.
func UpperBound(s []float64) float64 {
	slices.Sort(s)
	// Of n values, at least k+1 lie below the median with the probability of as many heads: s[k] is the bound for the least
	// k that makes it 5 % or less.
	n := len(s)
	tail, p := 0.0, math.Ldexp(1, -n)
	for k := n; k > 0; k-- { // p is the probability of exactly k of n heads
		if tail+p > 0.05 {
			return s[min(k, n-1)]
		}
		tail += p
		p = p * float64(k) / float64(n-k+1)
	}
	return s[0]
}
