package pgstore

import (
	"context"
	"encoding/json"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// fill stores n completed keys; those up to expired have expired.
func fill(b testing.TB, s *Store, n, expired int) {
	b.Helper()
	const chunk = 250_000
	for from := 1; from <= n; from += chunk {
		_, err := s.DB.Exec(b.Context(), `INSERT INTO semel_keys (id, scope, key, fingerprint, owner, started, lease_until, created_at, expires_at, state, fence, status, header, body)
			SELECT md5('fill' || i)::uuid, (i % 1000)::text::bytea, ('fill' || i)::bytea, sha256('x'), decode(md5(i::text), 'hex'), false, clock_timestamp(), clock_timestamp(),
			  clock_timestamp() + CASE WHEN i <= $3 THEN interval '-1 hour' ELSE interval '3 days' + i * interval '1 microsecond' END, 2, 1, 201, '\x01', sha256('body')
			FROM generate_series($1::int, $2::int) i`, from, min(n, from+chunk-1), expired)
		require.NoError(b, err)
	}
	_, err := s.DB.Exec(b.Context(), `VACUUM ANALYZE semel_keys`)
	require.NoError(b, err)
}

// BenchmarkPages: (e) pages that a claim touches, in a small table and in a large one of -rows keys.
func BenchmarkPages(b *testing.B) {
	s := durable(b)
	for range b.N {
		small, large := pages(b, s, 10_000), pages(b, s, *rows)
		b.ReportMetric(small, "pages-at-10000")
		b.ReportMetric(large, fmt.Sprint("pages-at-", *rows))
		b.Logf("a claim touches %.0f pages at 10000 stored keys, %.0f at %d (at most 2 more)", small, large, *rows)
	}
}

// pages returns the median over some claims of the buffers that the two statements of a claim touch.
func pages(b *testing.B, s *Store, rows int) float64 {
	_, err := s.DB.Exec(b.Context(), `TRUNCATE semel_keys; ALTER TABLE semel_keys SET UNLOGGED`)
	require.NoError(b, err)
	fill(b, s, rows, 0)
	conn, err := s.DB.Acquire(b.Context())
	require.NoError(b, err)
	defer conn.Release()
	touched := func(sql string, args ...any) int64 {
		var plan []byte
		require.NoError(b, conn.QueryRow(b.Context(), `EXPLAIN (ANALYZE, BUFFERS, FORMAT JSON) `+sql, args...).Scan(&plan))
		var p []struct {
			Plan struct {
				Hit  int64 `json:"Shared Hit Blocks"`
				Read int64 `json:"Shared Read Blocks"`
			}
		}
		require.NoError(b, json.Unmarshal(plan, &p))
		return p[0].Plan.Hit + p[0].Plan.Read
	}
	var counts []int64
	for range 101 {
		c := claimOf(newKey())
		c.Retention = 3*24*time.Hour + time.Hour // as in use: what is claimed later expires later
		tx, err := conn.Begin(b.Context())       // the two statements of one batch
		require.NoError(b, err)
		n := touched(s.statements().insert, append(claimArgs(c), false)...) + touched(s.statements().unlessInserted, at(c.ID))
		require.NoError(b, tx.Commit(b.Context()))
		counts = append(counts, n)
	}
	return float64(quantile(counts, 0.5))
}

// BenchmarkPurge: (f) claims while 300,000 rows are purged, beside quiet ones before and after.
func BenchmarkPurge(b *testing.B) {
	const expired = 300_000
	s := durable(b, conns(10))
	for range b.N {
		fill(b, s, expired, expired)
		quiet := claims(b, s, 2*time.Second)
		stop, waits := make(chan struct{}), make(chan int)
		go func() { waits <- lockWaits(b, s, stop) }()
		var purging atomic.Bool
		purging.Store(true)
		var busy []float64
		var wg sync.WaitGroup
		wg.Go(func() {
			for purging.Load() {
				busy = append(busy, claims(b, s, 100*time.Millisecond)...)
			}
		})
		began := time.Now()
		n, err := s.Purge(b.Context(), expired)
		took := time.Since(began)
		purging.Store(false)
		wg.Wait()
		close(stop)
		require.NoError(b, err)
		require.Equal(b, expired, n)
		quiet = append(quiet, claims(b, s, 2*time.Second)...)
		waited := <-waits
		b.ReportMetric(quantile(busy, 0.5)/quantile(quiet, 0.5), "busy/quiet")
		b.ReportMetric(float64(waited), "lock-waits")
		b.Logf("purged %d rows in %.1f s; a claim takes %.2f ms, quiet %.2f ms: %.2f (at most 1.3); seen waiting for a lock: %d of %d samples",
			n, took.Seconds(), quantile(busy, 0.5), quantile(quiet, 0.5), quantile(busy, 0.5)/quantile(quiet, 0.5), waited, len(busy))
	}
}

// claims claims fresh keys, one after the other, and returns how many milliseconds each took.
func claims(b *testing.B, s *Store, d time.Duration) (took []float64) {
	for began := time.Now(); time.Since(began) < d; {
		at := time.Now()
		_, err := s.Claim(b.Context(), claimOf(newKey()))
		must(b, err)
		took = append(took, time.Since(at).Seconds()*1000)
	}
	return took
}

// lockWaits samples how often a backend waits for a lock.
func lockWaits(b *testing.B, s *Store, stop <-chan struct{}) (n int) {
	for {
		select {
		case <-stop:
			return n
		case <-time.After(time.Millisecond):
		}
		var waiting int
		must(b, s.DB.QueryRow(context.Background(), `SELECT count(*) FROM pg_stat_activity WHERE wait_event_type = 'Lock'`).Scan(&waiting))
		n += waiting
	}
}
