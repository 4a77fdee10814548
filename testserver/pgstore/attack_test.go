package pgstore

import (
	"context"
	"fmt"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/semel-go/semel/testserver"
)

// holdRow locks a key's place as a transaction does that has not yet committed its row. It returns how to end it.
func holdRow(t testing.TB, s *Store, key string) (end func(commit bool)) {
	t.Helper()
	tx, err := s.DB.Begin(t.Context())
	require.NoError(t, err)
	_, err = tx.Exec(t.Context(), s.statements().insert, append(claimArgs(claimOf(key)), false)...)
	require.NoError(t, err)
	var once sync.Once
	end = func(commit bool) {
		once.Do(func() {
			if commit {
				require.NoError(t, tx.Commit(context.Background()))
			} else {
				require.NoError(t, tx.Rollback(context.Background()))
			}
		})
	}
	t.Cleanup(func() { end(false) }) // also of a test that fails before
	return end
}

// active counts the claims that are being freed.
func (d *dropped) active() (n int) {
	d.mu.Lock()
	defer d.mu.Unlock()
	for _, freed := range d.owners {
		if !ended(freed) {
			n++
		}
	}
	return n
}

func TestAClaimThatFailedHoldsNothing(t *testing.T) { // B35
	s := empty(t)
	claimUntil := func(ctx context.Context, c testserver.Claim) error {
		_, err := s.Claim(ctx, c)
		return err
	}
	settled := func() bool { return s.dropped.active() == 0 }

	t.Run("when its context ends while the database works on it", func(t *testing.T) {
		end := holdRow(t, s, "slow")
		ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
		defer cancel()
		c := claimOf("slow")
		require.ErrorIs(t, claimUntil(ctx, c), context.DeadlineExceeded)
		end(false)
		require.Eventually(t, settled, 10*time.Second, time.Millisecond)
		require.Equal(t, testserver.Free, stateOf(t, s, "slow"))
		held(t, s, c)
	})
	t.Run("when it was committed and the answer lost", func(t *testing.T) {
		c := claimOf("lost")
		c.Started = true
		held(t, s, c) // and nobody has heard of it
		s.drop(c)
		held(t, s, c) // waits for the drop
		require.Zero(t, s.dropped.active())
	})
	t.Run("and takes nothing from others", func(t *testing.T) {
		h := held(t, s, claimOf("others"))
		s.drop(claimOf("others"))
		require.Eventually(t, settled, 10*time.Second, time.Millisecond)
		require.Equal(t, h, claim(t, s, claimOf("others")).Hold())
	})
	t.Run("when it was cancelled at any moment", func(t *testing.T) {
		var wg sync.WaitGroup
		var ok [200]atomic.Bool
		for i := range ok {
			wg.Go(func() {
				ctx, cancel := context.WithTimeout(t.Context(), rand.N(3*time.Millisecond))
				defer cancel()
				ok[i].Store(claimUntil(ctx, claimOf(fmt.Sprint("any", i))) == nil)
			})
		}
		wg.Wait()
		require.Eventually(t, settled, 10*time.Second, time.Millisecond)
		for i := range ok {
			want := testserver.Free
			if ok[i].Load() {
				want = testserver.Pending
			}
			require.Equal(t, want, stateOf(t, s, fmt.Sprint("any", i)))
		}
	})
	t.Run("and nothing runs on after Close", func(t *testing.T) {
		closing := open(t, s.DB.Config().ConnString())
		end := holdRow(t, closing, "closing")
		defer end(false)
		waits := func(besides int) (pid int) {
			require.Eventually(t, func() bool {
				return s.DB.QueryRow(t.Context(), `SELECT pid FROM pg_stat_activity WHERE wait_event_type = 'Lock'
					AND datname = current_database() AND pid <> $1`, besides).Scan(&pid) == nil
			}, 20*time.Second, time.Millisecond)
			return pid
		}
		ctx, cancel := context.WithCancel(t.Context())
		c := claimOf("closing")
		failed := make(chan error)
		go func() {
			_, err := closing.Claim(ctx, c)
			failed <- err
		}()
		claiming := waits(0)
		cancel()
		require.Error(t, soon(t, failed))
		waits(claiming) // the delete was sent
		require.NoError(t, closing.Close())
		_, err := closing.Claim(t.Context(), c)
		require.ErrorIs(t, err, ErrOwner, "a delete may still be on its way")
	})
}

// TestBackendsThatAreTerminated: whatever a call says while connections die, the database agrees with it.
func TestBackendsThatAreTerminated(t *testing.T) { // faults.md 25, 26
	s, effect, count := effects(t, func(_ *Store, c *pgxpoolConfig) { c.MaxConns = 8 })
	killer := open(t, s.DB.Config().ConnString(), func(_ *Store, c *pgxpoolConfig) { c.ConnConfig.RuntimeParams["application_name"] = "killer" })
	stop, killed := make(chan struct{}), make(chan int, 1)
	go func() {
		n := 0
		for {
			select {
			case <-stop:
				killed <- n
				return
			case <-time.After(rand.N(4 * time.Millisecond)):
			}
			var one int
			_ = killer.DB.QueryRow(context.Background(), `SELECT count(pg_terminate_backend(pid)) FROM (SELECT pid FROM pg_stat_activity
				WHERE datname = current_database() AND application_name <> 'killer' ORDER BY random() LIMIT 1) p`).Scan(&one)
			n += one
		}
	}()
	var wg sync.WaitGroup
	const workers, each = 8, 20
	var leases, answers [workers * each]error
	var mu sync.Mutex
	runs := map[string]int{}
	for w := range workers {
		wg.Go(func() {
			for i := w * each; i < (w+1)*each; i++ {
				_, leases[i] = s.Claim(t.Context(), claimOf(fmt.Sprint("lease", i)))
				key := fmt.Sprint("tx", i)
				_, answers[i] = s.Transact(t.Context(), claimOf(key), 0, func(ctx context.Context) (*testserver.Answer, error) {
					mu.Lock()
					runs[key]++
					mu.Unlock()
					return answer(), effect(ctx, key)
				})
			}
		})
	}
	wg.Wait()
	close(stop)
	require.Positive(t, <-killed)
	require.Eventually(t, func() bool { return s.dropped.active() == 0 }, 20*time.Second, time.Millisecond)
	for i := range leases {
		require.Equal(t, leases[i] == nil, stateOf(t, killer, fmt.Sprint("lease", i)) == testserver.Pending, "%v", leases[i])
		key := fmt.Sprint("tx", i)
		n, done := count(key), stateOf(t, killer, key) == testserver.Completed
		require.LessOrEqual(t, runs[key], 1, "never re-run after a connection broke")
		require.Equal(t, done, n == 1)
		if answers[i] == nil {
			require.True(t, done)
		} else if done {
			require.ErrorIs(t, answers[i], testserver.ErrInDoubt)
		}
	}
}

func TestResolve(t *testing.T) {
	s, effect, _ := effects(t)
	cause := fmt.Errorf("the connection broke")
	t.Run("committed", func(t *testing.T) {
		c := claimOf("committed")
		_, err := s.Transact(t.Context(), c, 0, func(ctx context.Context) (*testserver.Answer, error) { return answer(), effect(ctx, "k") })
		require.NoError(t, err)
		r, err := s.resolve(t.Context(), c, cause)
		require.NoError(t, err)
		require.Equal(t, answer(), r.Answer)
	})
	t.Run("not committed", func(t *testing.T) {
		_, err := s.resolve(t.Context(), claimOf("free"), cause)
		require.ErrorIs(t, err, cause)
		require.NotErrorIs(t, err, testserver.ErrInDoubt)
		require.Equal(t, testserver.Free, stateOf(t, s, "free"), "and the look has left nothing")
	})
	t.Run("waits for the end of the transaction in doubt", func(t *testing.T) {
		end := holdRow(t, s, "open")
		go func() { time.Sleep(100 * time.Millisecond); end(false) }()
		_, err := s.resolve(t.Context(), claimOf("open"), cause)
		require.NotErrorIs(t, err, testserver.ErrInDoubt)
	})
	t.Run("in doubt as long as that is open", func(t *testing.T) {
		impatient := open(t, s.DB.Config().ConnString(), func(s *Store, _ *pgxpoolConfig) { s.Timeout = 300 * time.Millisecond })
		end := holdRow(t, s, "doubt")
		defer end(false)
		_, err := impatient.resolve(t.Context(), claimOf("doubt"), cause)
		require.ErrorIs(t, err, testserver.ErrInDoubt)
		require.ErrorIs(t, err, cause)
	})
}

func TestAPoolOfOne(t *testing.T) {
	s, effect, count := effects(t, func(s *Store, c *pgxpoolConfig) { c.MaxConns = 1; s.Notify = true })
	var wg sync.WaitGroup
	for i := range 20 {
		wg.Go(func() {
			key := fmt.Sprint("tx", i/2)
			_, err := s.Transact(t.Context(), claimOf(key), 20*time.Second, func(ctx context.Context) (*testserver.Answer, error) {
				return answer(), effect(ctx, key)
			})
			if err != nil {
				t.Error(err)
			}
		})
		wg.Go(func() {
			c := claimOf(fmt.Sprint("lease", i/2))
			for {
				r, err := s.Claim(t.Context(), c)
				if err != nil {
					t.Error(err)
					return
				}
				if r.State == testserver.Completed {
					return
				}
				if r.HeldBy(c.Owner) {
					if err := s.Settle(t.Context(), r.Hold(), completed()); err != nil {
						t.Error(err)
					}
					return
				}
				if err := s.Wait(t.Context(), c.ID); err != nil {
					t.Error(err)
					return
				}
			}
		})
	}
	wg.Wait()
	for i := range 10 {
		require.Equal(t, 1, count(fmt.Sprint("tx", i)))
	}
}

// TestRenewSettleAndTakeover: of an owner that stalls and those that take over, at most one settles, and it is the last.
func TestRenewSettleAndTakeover(t *testing.T) { // B8, B9, B19, faults.md 20
	s := empty(t, func(_ *Store, c *pgxpoolConfig) { c.MaxConns = 8 })
	for round := range 30 {
		key := fmt.Sprint("k", round)
		var wg sync.WaitGroup
		var mu sync.Mutex
		var settled []int64
		for range 8 {
			wg.Go(func() {
				for range 6 {
					c := claimOf(key)
					c.Lease = rand.N(3 * time.Millisecond)
					r, err := s.Claim(t.Context(), c)
					if err != nil {
						t.Error(err)
						return
					}
					if !r.HeldBy(c.Owner) {
						continue
					}
					if rand.N(2) == 0 {
						time.Sleep(rand.N(3 * time.Millisecond))
					}
					if renewals, err := s.Renew(t.Context(), time.Millisecond, []testserver.Hold{r.Hold()}); err != nil || renewals[0] == testserver.Lost {
						continue
					}
					if s.Settle(t.Context(), r.Hold(), testserver.Settlement{State: testserver.Completed, Answer: &testserver.Answer{Status: 200 + int(r.Fence)}}) == nil {
						mu.Lock()
						settled = append(settled, r.Fence)
						mu.Unlock()
					}
				}
			})
		}
		wg.Wait()
		require.LessOrEqual(t, len(settled), 1)
		r, err := s.Look(t.Context(), testserver.ID{Scope: "s", Key: key})
		require.NoError(t, err)
		if len(settled) == 1 {
			require.Equal(t, settled[0], r.Fence)
			require.Equal(t, 200+int(settled[0]), r.Answer.Status)
		} else {
			require.Equal(t, testserver.Pending, r.State)
		}
	}
}

// TestPurgeNeverTakesAFreshClaim: keys expire, are purged and are claimed again, all at once.
func TestPurgeNeverTakesAFreshClaim(t *testing.T) { // B36, B37
	s := empty(t, func(_ *Store, c *pgxpoolConfig) { c.MaxConns = 12 })
	stop := make(chan struct{})
	var purgers, claimers sync.WaitGroup
	var purged atomic.Int64
	for range 3 {
		purgers.Go(func() {
			for {
				select {
				case <-stop:
					return
				default:
				}
				n, err := s.Purge(context.Background(), 50)
				if err != nil {
					t.Error(err)
				}
				purged.Add(int64(n))
			}
		})
	}
	for range 6 {
		claimers.Go(func() {
			for range 150 {
				c := claimOf(fmt.Sprint("k", rand.N(4)))
				c.Retention = rand.N(2 * time.Millisecond)
				r, err := s.Claim(t.Context(), c)
				if err != nil {
					t.Error(err)
					return
				}
				if !r.HeldBy(c.Owner) {
					continue
				}
				if err := s.Settle(t.Context(), r.Hold(), completed()); err != nil {
					t.Error("a fresh claim is gone:", err)
				}
			}
		})
	}
	claimers.Wait()
	close(stop)
	purgers.Wait()
	require.Positive(t, purged.Load())
}
