package semel

import (
	"cmp"
	"context"
	"fmt"
	"math"
	"net/http"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
)

const shop = "shop.example"

// drain takes retries until there are none, and returns how many there were.
func drain(b *Budget, host string, timeout bool) (n int) {
	for b.take(host, timeout) {
		if n++; n > 1_000_000 {
			return n
		}
	}
	return n
}

// faults.md §4.4: capacity 10, a retry costs 1, one after a timeout 5, an answer earns 0.1.
func TestBudgetCapacityAndPrices(t *testing.T) {
	for rule, c := range map[string]struct {
		budget   *Budget
		timeout  bool
		first    int // retries of a full bucket
		answers  int // that make the next retry possible, and no fewer
		thenMore int
	}{
		"zero":                                  {first: 10, answers: 10, thenMore: 1},
		"zero, timeouts":                        {timeout: true, first: 2, answers: 50, thenMore: 1},
		"all set":                               {budget: &Budget{Max: 6, Refill: 0.5, Cost: 2, TimeoutCost: 3}, first: 3, answers: 4, thenMore: 1},
		"all set, timeouts":                     {budget: &Budget{Max: 6, Refill: 0.5, Cost: 2, TimeoutCost: 3}, timeout: true, first: 2, answers: 6, thenMore: 1},
		"a price above Max costs Max":           {budget: &Budget{Max: 3, Refill: 1}, timeout: true, first: 1, answers: 3, thenMore: 1},
		"one answer fills":                      {budget: &Budget{Max: 4, Refill: math.Inf(1)}, first: 4, answers: 1, thenMore: 4},
		"an infinite price still leaves one":    {budget: &Budget{Cost: math.Inf(1)}, first: 1, answers: 100, thenMore: 1},
		"fractions that no float can represent": {budget: &Budget{Max: 0.3, Cost: 0.1, Refill: 0.05}, first: 3, answers: 2, thenMore: 1},
	} {
		t.Run(rule, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				b := cmp.Or(c.budget, new(Budget))
				require.NoError(t, b.check())
				require.Equal(t, c.first, drain(b, shop, c.timeout))
				for range c.answers - 1 {
					b.earn(shop)
				}
				require.Zero(t, drain(b, shop, c.timeout))
				b.earn(shop)
				require.Equal(t, c.thenMore, drain(b, shop, c.timeout))
			})
		})
	}
}

func TestAnInfiniteBudgetHasNoLimitAndKeepsNothing(t *testing.T) {
	b := &Budget{Max: math.Inf(1)}
	for range 1000 {
		require.True(t, b.take(shop, true))
	}
	b.earn(shop)
	require.Empty(t, b.hosts)
}

// clients.md 55: a quota that was used up comes back with success, whole.
func TestAUsedUpBudgetComesBackWithAnswers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var b Budget
		drain(&b, shop, false)
		for range 1000 {
			b.earn(shop)
		}
		require.Empty(t, b.hosts, "a full bucket is forgotten")
		require.Zero(t, b.short.Load())
		require.Equal(t, 10, drain(&b, shop, false), "full, and not more than full")
	})
}

// clients.md 57: one host in trouble does not silence the retries to another.
func TestBudgetsAreByHost(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var b Budget
		drain(&b, shop, false)
		require.Equal(t, 10, drain(&b, "bank.example", false))
		for range 10 {
			b.earn("bank.example")
		}
		require.False(t, b.take(shop, false))
		require.True(t, b.take("bank.example", false))
	})
}

func TestABudgetNeverStarves(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var b Budget
		drain(&b, shop, false)
		time.Sleep(time.Minute - time.Millisecond)
		require.False(t, b.take(shop, false))
		time.Sleep(time.Millisecond)
		require.Equal(t, 1, drain(&b, shop, false), "a token a minute")
		time.Sleep(5 * time.Minute)
		require.True(t, b.take(shop, true))
		time.Sleep(1000 * time.Hour)
		require.Equal(t, 10, drain(&b, shop, false), "never more than full")
	})
}

func TestARetryThatWasNotMadeIsGivenBack(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var b Budget
		b.refund(shop, true)
		require.Empty(t, b.hosts)
		for range 1000 {
			require.True(t, b.take(shop, true))
			b.refund(shop, true)
		}
		require.Empty(t, b.hosts)
		drain(&b, shop, false)
		b.refund(shop, false)
		require.Equal(t, 1, drain(&b, shop, false))
	})
}

func TestACallerWhoGivesUpInTheWaitCostsNoBudget(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var b Budget
		client := Client{HTTP: (&Transport{Base: busy{}, Retry: Policy{Budget: &b}}).Client()}
		for range 100 {
			ctx, cancel := context.WithCancel(t.Context())
			time.AfterFunc(time.Millisecond, cancel) // before the first repeat
			req, err := http.NewRequestWithContext(ctx, http.MethodPost, "http://"+shop, nil)
			require.NoError(t, err)
			_, err = client.Do(req)
			require.ErrorIs(t, err, context.Canceled)
		}
		require.Equal(t, 10, drain(&b, shop, false))
	})
}

// busy is a server that always has too much to do.
type busy struct{}

func (busy) RoundTrip(r *http.Request) (*http.Response, error) {
	return &http.Response{StatusCode: http.StatusServiceUnavailable, Header: http.Header{}, Body: http.NoBody, Request: r}, nil
}

// faults.md §4.3: where one call in ten fails every retry is made; where all fail, hardly any.
func TestABudgetFollowsTheTraffic(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var b Budget
		for n := range 10_000 {
			if n%10 == 0 {
				require.True(t, b.take(shop, false), "call %d", n)
			}
			b.earn(shop)
		}
		retries := 0
		for range 60_000 { // a minute of outage at 1,000 calls a second
			if b.take(shop, false) {
				retries++
			}
			time.Sleep(time.Millisecond)
		}
		require.LessOrEqual(t, retries, 11)
	})
}

// A hundred thousand hosts in trouble take the space of 4,096 and share what is left; healthy ones go on retrying.
func TestBudgetsOfManyHostsAreBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var b Budget
		made := 0
		for n := range 100_000 {
			if b.take(fmt.Sprintf("h%d", n), false) {
				made++
			}
		}
		require.Len(t, b.hosts, maxHosts)
		require.Equal(t, maxHosts+10, made, "those without a place share one bucket")
		require.EqualValues(t, maxHosts+1, b.short.Load())

		require.True(t, b.take("h0", false), "those with a place have what is theirs")
		for range 10 {
			b.earn("h99999")
		}
		require.True(t, b.take("h50000", false), "answers of those without a place are theirs")
		require.False(t, b.take("h50000", false))

		time.Sleep(3 * time.Minute) // every bucket is full again, h0's among them
		require.Equal(t, 10, drain(&b, "late.example", false))
		require.Len(t, b.hosts, 1)
		for range 100 {
			b.earn("late.example")
			b.earn("h50000")
		}
		require.Empty(t, b.hosts)
		require.Nil(t, b.rest)
		require.Zero(t, b.short.Load())
	})
}

func TestABudgetIsExactUnderConcurrency(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := Budget{Max: 50}
		var made atomic.Int64
		all := func(f func()) {
			var wg sync.WaitGroup
			for range 100 {
				wg.Go(f)
			}
			wg.Wait()
		}
		take := func() {
			if b.take(shop, false) {
				made.Add(1)
			}
		}
		all(take)
		require.EqualValues(t, 50, made.Load())
		all(func() { b.earn(shop); b.earn("other.example") })
		all(take)
		require.EqualValues(t, 60, made.Load())
	})
}

func TestABudgetRefusesNonsenseByName(t *testing.T) {
	for _, bad := range []float64{-1, -1e-300, math.Inf(-1), math.NaN()} {
		for name, b := range map[string]*Budget{
			"Max": {Max: bad}, "Refill": {Refill: bad}, "Cost": {Cost: bad}, "TimeoutCost": {TimeoutCost: bad},
		} {
			require.ErrorContains(t, b.check(), "Budget."+name+" is ")
		}
	}
	require.NoError(t, new(Budget).check())
}

func TestAnAnswerOfAHealthyHostCostsNothing(t *testing.T) {
	var b Budget
	require.Zero(t, testing.AllocsPerRun(100, func() { b.earn(shop) }))
	b.take("other.example", false)
	require.Zero(t, testing.AllocsPerRun(100, func() { b.earn(shop) }))
}

func BenchmarkBudgetEarn(b *testing.B) {
	run := func(b *testing.B, budget *Budget) {
		b.ReportAllocs()
		b.RunParallel(func(pb *testing.PB) {
			for pb.Next() {
				budget.earn(shop)
			}
		})
	}
	b.Run("all well", func(b *testing.B) { run(b, new(Budget)) })
	b.Run("another host in trouble", func(b *testing.B) {
		var budget Budget
		budget.take("other.example", false)
		run(b, &budget)
	})
	b.Run("this host in trouble", func(b *testing.B) {
		budget := Budget{Max: 1e12, Cost: 1e12}
		budget.take(shop, false)
		run(b, &budget)
	})
}
