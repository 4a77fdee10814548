package pgstore

import (
	"context"
	"testing"
	"time"

	"github.com/semel-go/semel/testserver"
)

// BenchmarkWake: (d) from the end of a settlement or a transaction until a waiter knows.
func BenchmarkWake(b *testing.B) {
	notify := func(s *Store, _ *pgxpoolConfig) { s.Notify = true }
	plain := func(*Store, *pgxpoolConfig) {}
	for _, c := range []struct {
		name   string
		adjust func(*Store, *pgxpoolConfig)
		other  bool
		wake   func(b *testing.B, s, waiter *Store) time.Duration
		atMost string
	}{
		{"lease mode/same process", plain, false, wakeOfSettlement, "5 ms"},
		{"lease mode/other process by NOTIFY", notify, true, wakeOfSettlement, "15 ms"},
		{"lease mode/other process by polling", plain, true, wakeOfSettlement, "an interval of 50 ms, and 5 ms"},
		{"transactional/same process", plain, false, wakeOfTransaction, "5 ms"},
		{"transactional/other process", plain, true, wakeOfTransaction, "5 ms"},
	} {
		b.Run(c.name, func(b *testing.B) {
			s := durable(b, c.adjust)
			waiter := s
			if c.other {
				waiter = open(b, s.DB.Config().ConnString(), c.adjust)
			}
			must(b, waiter.Wait(b.Context(), testserver.ID{})) // listens from now on
			time.Sleep(300 * time.Millisecond)
			for range b.N {
				took := make([]float64, 300)
				for i := range took {
					took[i] = c.wake(b, s, waiter).Seconds() * 1000
				}
				b.ReportMetric(quantile(took, 0.5), "p50-ms")
				b.ReportMetric(quantile(took, 0.99), "p99-ms")
				b.Logf("p50 %.2f ms, p99 %.2f ms (at most %s)", quantile(took, 0.5), quantile(took, 0.99), c.atMost)
			}
		})
	}
}

func wakeOfSettlement(b *testing.B, s, waiter *Store) time.Duration {
	h := held(b, s, claimOf(newKey()))
	woken := make(chan time.Time)
	go func() {
		must(b, waiter.Wait(b.Context(), h.ID))
		woken <- time.Now()
	}()
	time.Sleep(5 * time.Millisecond)
	must(b, s.Settle(b.Context(), h, completed()))
	settled := time.Now()
	return max(0, (<-woken).Sub(settled))
}

func wakeOfTransaction(b *testing.B, s, waiter *Store) time.Duration {
	key := newKey()
	running, end, woken := make(chan struct{}), make(chan struct{}), make(chan time.Time)
	go func() {
		<-running
		r, err := waiter.Transact(b.Context(), claimOf(key), time.Minute, func(context.Context) (*testserver.Answer, error) { return nil, nil })
		must(b, err)
		if r.Answer == nil {
			b.Error("no replay")
		}
		woken <- time.Now()
	}()
	go func() {
		<-running
		time.Sleep(5 * time.Millisecond)
		close(end)
	}()
	_, err := s.Transact(b.Context(), claimOf(key), 0, func(context.Context) (*testserver.Answer, error) {
		close(running)
		<-end
		return answer(), nil
	})
	must(b, err)
	committed := time.Now()
	return max(0, (<-woken).Sub(committed))
}
