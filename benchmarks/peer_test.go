package benchmarks

import (
	"testing"
)

// cannot lists what a peer does not do, and why. All else must work, or the tables would compare unlike things.
var cannot = map[string]string{
	"floor RetryReader1K":    "status 503 after 1 attempts",
	"resty-v2 RetryReader1K": "the last attempt carried 0 of 1024 body bytes",
	"resty-v3 RetryReader1K": "resty: reader is not seekable on request retry",
}

func TestEveryPeerDoesEveryCaseThatItClaims(t *testing.T) {
	for _, p := range Peers() {
		for _, c := range Cases() {
			t.Run(p.Name+"/"+c.Name, func(t *testing.T) {
				_, err := NewRunner(&p, &c)
				want := cannot[p.Name+" "+c.Name]
				switch {
				case p.Once && c.Attempts > 1:
					want = "never retries"
				case p.NoReader && c.Reader:
					want = "takes no plain reader"
				}
				got := ""
				if err != nil {
					got = err.Error()
				}
				if got != want {
					t.Errorf("%s in %s: %q, want %q", p.Name, c.Name, got, want)
				}
			})
		}
	}
}

func TestUpperBoundIsTheOrderStatisticOfTheSignTest(t *testing.T) {
	for _, c := range []struct{ n, rank int }{
		{4, 4},   // too few: the largest
		{5, 5},   // P(5 of 5) = 3.1 %
		{10, 9},  // P(9 or more of 10) = 1.1 %, 8 or more 5.5 %
		{30, 20}, // P(20 or more of 30) = 4.9 %
		{100, 59},
	} {
		values := make([]float64, c.n)
		for i := range values {
			values[i] = float64(c.n - i)
		}
		if got := UpperBound(values); got != float64(c.rank) {
			t.Errorf("of %d values the bound is number %v, want %d", c.n, got, c.rank)
		}
	}
}
