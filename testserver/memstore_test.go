package testserver_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/semel-go/semel/semeltest"
	"github.com/semel-go/semel/testserver"
)

var _ testserver.Transactor = (*testserver.MemStore)(nil)

func TestTheMemoryStoreKeepsTheContract(t *testing.T) {
	semeltest.TestStore(t, func(*testing.T) testserver.Store { return new(testserver.MemStore) })
}

func claimOf(key string) testserver.Claim {
	return testserver.Claim{ID: id(key), Owner: testserver.NewOwner(), Lease: time.Second, Retention: time.Hour}
}

func claim(t testing.TB, s testserver.Store, c testserver.Claim) testserver.Record {
	t.Helper()
	rec, err := s.Claim(t.Context(), c)
	require.NoError(t, err)
	return rec
}

func settle(t testing.TB, s testserver.Store, rec testserver.Record, body string) {
	t.Helper()
	require.NoError(t, s.Settle(t.Context(), rec.Hold(), testserver.Settlement{
		State: testserver.Completed, Answer: &testserver.Answer{Status: 201, Body: []byte(body)}}))
}

// servers.md B6: what happens at the ends of a lease and of a retention, to the nanosecond.
func TestTheEndsOfTimes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := new(testserver.MemStore)
		first := claim(t, s, claimOf("k"))
		require.Equal(t, time.Second, first.Left)
		time.Sleep(time.Second - 1)
		second := claimOf("k")
		rec := claim(t, s, second)
		require.False(t, rec.HeldBy(second.Owner))
		require.EqualValues(t, 1, rec.Left)
		time.Sleep(time.Nanosecond)
		rec, err := s.Look(t.Context(), id("k"))
		require.NoError(t, err)
		require.Equal(t, testserver.Pending, rec.State, "looking changes nothing")
		require.Zero(t, rec.Left)
		rec = claim(t, s, second)
		require.True(t, rec.HeldBy(second.Owner))
		require.Equal(t, first.Fence+1, rec.Fence)
		require.Equal(t, time.Second, rec.Age, "since the first claim")

		settle(t, s, rec, "")
		time.Sleep(time.Hour - time.Second - 1)
		require.Equal(t, testserver.Completed, claim(t, s, claimOf("k")).State)
		time.Sleep(time.Nanosecond)
		third := claimOf("k")
		rec = claim(t, s, third)
		require.True(t, rec.HeldBy(third.Owner))
		require.Greater(t, rec.Fence, int64(2))
	})
}

func TestALapsedClaimIsRunAgainWithinItsTime(t *testing.T) {
	for _, tt := range []struct {
		name    string
		rerun   time.Duration
		after   time.Duration
		started bool
		state   testserver.State
	}{
		{"without a limit", 0, 1000 * time.Hour, false, testserver.Pending},
		{"within it", time.Minute, time.Minute, false, testserver.Pending},
		{"just after it", time.Minute, time.Minute + 1, false, testserver.Unknown},
		{"never once it has started", 0, time.Second, true, testserver.Unknown},
	} {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := new(testserver.MemStore)
				c := claimOf("k")
				c.RerunFor, c.Started = tt.rerun, tt.started
				claim(t, s, c)
				time.Sleep(tt.after)
				again := c
				again.Owner = testserver.NewOwner()
				rec := claim(t, s, again)
				require.Equal(t, tt.state, rec.State)
				require.Equal(t, tt.state == testserver.Pending, rec.HeldBy(again.Owner))
			})
		})
	}
}

// Whoever asks again with the same owner finds its own claim, lapsed or not.
func TestAnOwnerFindsItsOwnClaim(t *testing.T) {
	for _, started := range []bool{false, true} {
		synctest.Test(t, func(t *testing.T) {
			s := new(testserver.MemStore)
			c := claimOf("k")
			c.Started = started
			first := claim(t, s, c)
			for range 2 {
				again := claim(t, s, c)
				require.True(t, again.HeldBy(c.Owner))
				require.Equal(t, first.Fence, again.Fence)
				time.Sleep(2 * time.Second)
			}
		})
	}
}

// servers.md B36, B38: purging takes no key that lives, and none that was claimed again.
func TestPurge(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := new(testserver.MemStore)
		for i := range 5 {
			settle(t, s, claim(t, s, claimOf(fmt.Sprint("expired", i))), "")
		}
		pending, unknown := claimOf("pending"), claimOf("unknown")
		claim(t, s, pending)
		require.NoError(t, s.Settle(t.Context(), claim(t, s, unknown).Hold(), testserver.Settlement{State: testserver.Unknown}))
		time.Sleep(2 * time.Hour)
		settle(t, s, claim(t, s, claimOf("fresh")), "")
		again := claimOf("expired0")
		claim(t, s, again)

		for _, want := range []int{3, 1, 0} {
			n, err := s.Purge(t.Context(), 3)
			require.NoError(t, err)
			require.Equal(t, want, n)
		}
		for key, want := range map[string]testserver.State{
			"expired0": testserver.Pending, "expired1": testserver.Free, "fresh": testserver.Completed,
			"pending": testserver.Pending, "unknown": testserver.Unknown,
		} {
			rec, err := s.Look(t.Context(), id(key))
			require.NoError(t, err)
			require.Equal(t, want, rec.State, key)
		}
	})
}

// An operation that is resolved after its retention must not be free for a second run in the same moment.
func TestALateEndIsKeptForAnotherRetention(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := new(testserver.MemStore)
		c := claimOf("k")
		c.Started = true
		rec := claim(t, s, c)
		time.Sleep(100 * time.Hour)
		settle(t, s, rec, "done")
		time.Sleep(time.Hour - 1)
		require.Equal(t, testserver.Completed, claim(t, s, claimOf("k")).State)
		time.Sleep(time.Nanosecond)
		require.Equal(t, testserver.Pending, claim(t, s, claimOf("k")).State)
	})
}

// A full store takes no new keys and forgets none.
func TestAFullStore(t *testing.T) {
	for name, full := range map[string]func(*testserver.MemStore) int{
		"of keys":  func(s *testserver.MemStore) int { s.MaxKeys = 3; return 3 },
		"of bytes": func(s *testserver.MemStore) int { s.MaxBytes = 250; return 3 },
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := new(testserver.MemStore)
				n := full(s)
				e := new(effect)
				g := guard(e)
				g.Store, g.Retention = s, time.Hour
				body := strings.Repeat("x", 100)
				e.do = works(0, nil)
				for i := range n {
					settle(t, s, claim(t, s, claimOf(fmt.Sprint(i))), body)
				}
				for _, kind := range []testserver.Effect{testserver.Once, testserver.Transactional} {
					g.Effect = kind
					got := do(g, request("new", ""))
					got.is(t, 503, "store_unavailable")
					require.Equal(t, "1", got.header.Get("Retry-After"))
				}
				for i := range n {
					require.Equal(t, testserver.Completed, claim(t, s, claimOf(fmt.Sprint(i))).State)
				}
				require.Zero(t, e.runs.Load())
				time.Sleep(time.Hour)
				require.Equal(t, 201, do(g, request("new", "")).status, "what has expired makes way by itself")
			})
		})
	}
}

// A stored answer is the store's own: neither the handler's buffer nor a reader can change it.
func TestAStoredAnswerIsACopy(t *testing.T) {
	s := new(testserver.MemStore)
	rec := claim(t, s, claimOf("k"))
	a := &testserver.Answer{Status: 201, Body: []byte("body"), Header: []testserver.Field{{Name: "A", Value: "1"}}}
	end := testserver.Settlement{State: testserver.Completed, Answer: a}
	require.NoError(t, s.Settle(t.Context(), rec.Hold(), end))
	require.NoError(t, s.Settle(t.Context(), rec.Hold(), end), "the same end again")
	a.Body[0], a.Header[0].Value = 'x', "2"
	require.ErrorIs(t, s.Settle(t.Context(), rec.Hold(), end), testserver.ErrLost, "another end")
	got := claim(t, s, claimOf("k")).Answer
	require.Equal(t, "body", string(got.Body))
	require.Equal(t, "1", got.Header[0].Value)
}

func TestWaitingForATransaction(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := new(testserver.MemStore)
		go func() {
			_, err := s.Transact(context.Background(), claimOf("k"), 0, func(context.Context) (*testserver.Answer, error) {
				time.Sleep(5 * time.Second)
				return &testserver.Answer{Status: 201}, nil
			})
			require.NoError(t, err)
		}()
		synctest.Wait()
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		_, err := s.Claim(ctx, claimOf("k"))
		require.ErrorIs(t, err, context.DeadlineExceeded)
		_, err = s.Transact(ctx, claimOf("k"), time.Hour, nil)
		require.ErrorIs(t, err, context.DeadlineExceeded)
		begun := time.Now()
		require.Equal(t, testserver.Completed, claim(t, s, claimOf("k")).State)
		require.Equal(t, 4*time.Second, time.Since(begun))
	})
}

// Random calls of many goroutines, with leases that lapse: never two owners at once.
func TestNeverTwoOwners(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := new(testserver.MemStore)
		var mu sync.Mutex
		holder := map[testserver.ID]testserver.Hold{} // and its lease has not lapsed
		var all sync.WaitGroup
		for n := range 20 {
			all.Go(func() {
				r := rand.New(rand.NewPCG(1, uint64(n)))
				for range 200 {
					c := claimOf(fmt.Sprint(r.IntN(3)))
					c.Started = r.IntN(10) == 0
					rec, err := s.Claim(t.Context(), c)
					require.NoError(t, err)
					if rec.HeldBy(c.Owner) {
						mu.Lock()
						require.Less(t, holder[c.ID].Fence, rec.Fence)
						holder[c.ID] = rec.Hold()
						mu.Unlock()
						time.Sleep(time.Duration(r.IntN(1500)) * time.Millisecond)
						end := testserver.Settlement{State: []testserver.State{testserver.Completed, testserver.Unknown, testserver.Free, testserver.Tombstone}[r.IntN(4)]}
						if end.State == testserver.Free {
							end.State = testserver.Completed // a freed record forgets its fence
						}
						mu.Lock()
						current := holder[c.ID].Fence == rec.Fence
						err := s.Settle(t.Context(), rec.Hold(), end)
						require.Equal(t, current, err == nil, "%v", err)
						mu.Unlock()
					}
					time.Sleep(time.Duration(r.IntN(2000)) * time.Second)
				}
			})
		}
		all.Wait()
	})
}
