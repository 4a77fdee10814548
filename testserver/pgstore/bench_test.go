package pgstore

import (
	"context"
	"flag"
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/semel-go/semel/testserver"
	"github.com/semel-go/semel/testserver/pgstore/pgtest"
)

// The benchmarks compare within one run, on a durable server of their own, and report ratios of medians:
//
//	go test -run '^$' -bench . -benchtime 1x ./testserver/pgstore
//	go test -run '^$' -bench Pages -benchtime 1x -timeout 1h ./testserver/pgstore -rows 10000000
var rows = flag.Int("rows", 300_000, "stored keys of the large table, for BenchmarkPages")

// durable returns a store on a server that keeps what it commits.
func durable(b *testing.B, adjust ...func(*Store, *pgxpoolConfig)) *Store {
	b.Helper()
	return open(b, pgtest.Start(b).DSN(b), adjust...)
}

func conns(n int32) func(*Store, *pgxpoolConfig) {
	return func(_ *Store, c *pgxpoolConfig) { c.MaxConns, c.MinConns = n, n }
}

var serial atomic.Int64

func newKey() string { return "k" + strconv.FormatInt(serial.Add(1), 10) }

// rate runs f in many goroutines for a time and returns how often per second.
func rate(goroutines int, d time.Duration, f func(worker int)) float64 {
	var n atomic.Int64
	var wg sync.WaitGroup
	began := time.Now()
	for w := range goroutines {
		wg.Go(func() {
			for time.Since(began) < d {
				f(w)
				n.Add(1)
			}
		})
	}
	wg.Wait()
	return float64(n.Load()) / time.Since(began).Seconds()
}

// beside runs contenders in turn and returns the rate of each: of one goroutine by the median of single calls, of many by
// the median of short slices of time.
func beside(goroutines int, contenders ...func(worker int)) []float64 {
	samples := make([][]float64, len(contenders))
	turns := 1000
	if goroutines > 1 {
		turns = 20
	}
	for turn := range turns + turns/10 {
		for i, f := range contenders {
			var r float64
			if goroutines == 1 {
				began := time.Now()
				f(0)
				r = 1 / time.Since(began).Seconds()
			} else {
				r = rate(goroutines, 150*time.Millisecond, f)
			}
			if turn >= turns/10 { // the first ones warm up
				samples[i] = append(samples[i], r)
			}
		}
	}
	medians := make([]float64, len(contenders))
	for i := range samples {
		medians[i] = quantile(samples[i], 0.5)
	}
	return medians
}

func quantile[T ~float64 | ~int64](v []T, q float64) T {
	v = slices.Sorted(slices.Values(v))
	return v[min(int(q*float64(len(v))), len(v)-1)]
}

func must(b *testing.B, err error) {
	b.Helper()
	if err != nil {
		b.Error(err)
	}
}

// BenchmarkTransactional: (a) the bank behind a transactional guard beside the bank alone, and the store beside BEGIN and
// COMMIT around the same statements.
func BenchmarkTransactional(b *testing.B) {
	for _, c := range []struct {
		name       string
		goroutines int
		delay      time.Duration
		atLeast    float64
	}{{"one connection", 1, 0, 0.85}, {"saturated", 16, 0, 0.6}, {"1 ms away", 1, time.Millisecond, 0.95}} {
		b.Run(c.name, func(b *testing.B) {
			s := durable(b, conns(int32(c.goroutines)))
			if c.delay > 0 {
				s = open(b, moved(b, s.DB.Config().ConnString(), c.delay), conns(int32(c.goroutines)))
			}
			bank, guard, _ := bank(b, s, testserver.Transactional)
			for w := range 2 * c.goroutines {
				bank.Open("a"+strconv.Itoa(w), 1<<40)
			}
			for range b.N {
				http := beside(c.goroutines, serving(b, bank), serving(b, guard))
				ledger := &Ledger{DB: s.DB}
				plain := func(w int) {
					_, err := ledger.Transfer(b.Context(), testserver.Transfer{From: account(2 * w), To: account(2*w + 1), Amount: 1})
					must(b, err)
				}
				keyed := func(w int) {
					_, err := s.Transact(b.Context(), claimOf(newKey()), 0, func(ctx context.Context) (*testserver.Answer, error) {
						_, err := ledger.Transfer(ctx, testserver.Transfer{From: account(2 * w), To: account(2*w + 1), Amount: 1})
						return answer(), err
					})
					must(b, err)
				}
				store := beside(c.goroutines, plain, keyed, byHand(b, s))
				b.ReportMetric(http[1]/http[0], "guarded/plain")
				b.ReportMetric(store[1]/store[0], "store/plain")
				b.ReportMetric(store[2]/store[0], "by-hand/plain")
				b.Logf("bank alone %.0f/s, guarded %.0f/s: %.2f (at least %.2f); plain transaction %.0f/s, Transact %.0f/s: %.2f, by hand %.0f/s: %.2f",
					http[0], http[1], http[1]/http[0], c.atLeast, store[0], store[1], store[1]/store[0], store[2], store[2]/store[0])
			}
		})
	}
}

func account(w int) string { return "a" + strconv.Itoa(w) }

// serving posts transfers to a handler, each with a key of its own and between accounts of its own.
func serving(b *testing.B, h http.Handler) func(int) {
	return func(w int) {
		r := httptest.NewRequestWithContext(b.Context(), "POST", "/transfers",
			strings.NewReader(fmt.Sprintf(`{"from":"a%d","to":"a%d","amount":1}`, 2*w, 2*w+1)))
		r.Header.Set("Idempotency-Key", newKey())
		rec := httptest.NewRecorder()
		if h.ServeHTTP(rec, r); rec.Code != 201 {
			b.Error(rec.Code, rec.Body)
		}
	}
}

// moved returns the connection string with the server so far away.
func moved(b *testing.B, dsn string, by time.Duration) string {
	b.Helper()
	u, err := url.Parse(dsn)
	require.NoError(b, err)
	u.Host = slowed(b, u.Host, by)
	return u.String()
}

// BenchmarkReplay: (b) replays beside fresh operations, in both modes.
func BenchmarkReplay(b *testing.B) {
	for _, goroutines := range []int{1, 16} {
		b.Run(fmt.Sprint(goroutines, " connections"), func(b *testing.B) {
			s := durable(b, conns(int32(goroutines)))
			ctx := b.Context()
			must(b, s.Settle(ctx, held(b, s, claimOf("lease")), completed()))
			fresh := func(int) {
				r, err := s.Claim(ctx, claimOf(newKey()))
				must(b, err)
				must(b, s.Settle(ctx, r.Hold(), completed()))
			}
			replay := func(int) {
				_, err := s.Claim(ctx, claimOf("lease"))
				must(b, err)
			}
			nothing := func(context.Context) (*testserver.Answer, error) { return answer(), nil }
			transact := func(key func(w int) string) func(int) {
				return func(w int) {
					_, err := s.Transact(ctx, claimOf(key(w)), time.Minute, nothing)
					must(b, err)
				}
			}
			for range b.N {
				r := beside(goroutines, fresh, replay,
					transact(func(int) string { return newKey() }), transact(func(w int) string { return fmt.Sprint("tx", w) }))
				b.ReportMetric(r[1]/r[0], "lease-replay/fresh")
				b.ReportMetric(r[3]/r[2], "tx-replay/fresh")
				b.Logf("lease mode: fresh %.0f/s, replay %.0f/s: %.1f; transactional: fresh %.0f/s, replay %.0f/s: %.1f (at least 4)",
					r[0], r[1], r[1]/r[0], r[2], r[3], r[3]/r[2])
			}
		})
	}
}

// BenchmarkWAL: (g) bytes of the log for each fresh operation, without the full pages after a checkpoint.
func BenchmarkWAL(b *testing.B) {
	s := durable(b)
	wal := func(n int, f func()) float64 {
		var before, after int64
		const at = `SELECT pg_current_wal_insert_lsn() - '0/0'`
		must(b, s.DB.QueryRow(b.Context(), at).Scan(&before))
		for range n {
			f()
		}
		must(b, s.DB.QueryRow(b.Context(), at).Scan(&after))
		return float64(after-before) / float64(n)
	}
	end := completed()
	end.Answer.Body = make([]byte, 500)
	lease := func() { must(b, s.Settle(b.Context(), held(b, s, claimOf(newKey())), end)) }
	transact := func() {
		_, err := s.Transact(b.Context(), claimOf(newKey()), 0, func(context.Context) (*testserver.Answer, error) { return end.Answer, nil })
		must(b, err)
	}
	for range b.N {
		wal(3000, lease)
		b.ReportMetric(wal(3000, lease), "lease-B/op")
		b.ReportMetric(wal(3000, transact), "tx-B/op")
	}
}
