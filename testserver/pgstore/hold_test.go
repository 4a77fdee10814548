package pgstore

import (
	"context"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/semel-go/semel/testserver"
)

func TestRenew(t *testing.T) { inAllModes(t, testRenew) }

func testRenew(t *testing.T, s *Store) {
	renew := func(holds ...testserver.Hold) []testserver.Renewal {
		t.Helper()
		r, err := s.Renew(t.Context(), time.Minute, holds)
		require.NoError(t, err)
		return r
	}
	t.Run("extends many leases and reports in their order", func(t *testing.T) {
		var holds []testserver.Hold
		for _, key := range []string{"a", "b", "c", "d"} {
			holds = append(holds, held(t, s, claimOf(key)))
		}
		age(t, s, holds[0].ID, 50*time.Second)
		require.NoError(t, s.Settle(t.Context(), holds[1], completed()))
		holds[2].Fence++
		gone := testserver.Hold{ID: testserver.ID{Scope: "s", Key: "gone"}, Fence: 1}
		require.Equal(t, []testserver.Renewal{testserver.Renewed, testserver.Lost, testserver.Lost, testserver.Lost, testserver.Renewed},
			renew(holds[0], holds[1], holds[2], gone, holds[3]))
		r, err := s.Look(t.Context(), holds[0].ID)
		require.NoError(t, err)
		require.Greater(t, r.Left, 40*time.Second)
	})
	t.Run("takes a hold that is named twice", func(t *testing.T) {
		h := held(t, s, claimOf("twice"))
		marked := h
		marked.Started = true
		require.Equal(t, []testserver.Renewal{testserver.Renewed, testserver.Renewed}, renew(h, marked))
		r, err := s.Look(t.Context(), h.ID)
		require.NoError(t, err)
		require.True(t, r.Started)
	})
	t.Run("marks the effect as started for good, B14", func(t *testing.T) {
		h := held(t, s, claimOf("marked"))
		h.Started = true
		renew(h)
		h.Started = false
		renew(h)
		require.ErrorIs(t, s.Settle(t.Context(), h, testserver.Settlement{}), testserver.ErrStarted)
	})
	t.Run("makes a record pending again that had turned unknown", func(t *testing.T) {
		c := claimOf("unknown")
		c.Started = true
		h := held(t, s, c)
		age(t, s, c.ID, 2*time.Minute)
		d := claimOf("unknown")
		require.Equal(t, testserver.Unknown, claim(t, s, d).State)
		require.Equal(t, []testserver.Renewal{testserver.Renewed}, renew(h))
		require.Equal(t, testserver.Pending, claim(t, s, d).State)
	})
	t.Run("does not wait for a locked record", func(t *testing.T) {
		h := held(t, s, claimOf("locked"))
		tx, err := s.DB.Begin(t.Context())
		require.NoError(t, err)
		defer tx.Rollback(context.Background())
		_, err = tx.Exec(t.Context(), `SELECT FROM semel_keys WHERE id = $1 FOR NO KEY UPDATE`, at(h.ID))
		require.NoError(t, err)
		require.Equal(t, []testserver.Renewal{testserver.Busy}, renew(h))
		other := held(t, s, claimOf("not locked"))
		require.Equal(t, []testserver.Renewal{testserver.Busy, testserver.Renewed}, renew(h, other))
	})
	t.Run("loses to a takeover", func(t *testing.T) {
		h := held(t, s, claimOf("taken"))
		age(t, s, h.ID, 2*time.Minute)
		held(t, s, claimOf("taken"))
		require.Equal(t, []testserver.Renewal{testserver.Lost}, renew(h))
	})
	t.Run("of nothing is nothing", func(t *testing.T) { require.Empty(t, renew()) })
}

func TestSettle(t *testing.T) { inAllModes(t, testSettle) }

func testSettle(t *testing.T, s *Store) {
	tombstone := testserver.Settlement{State: testserver.Tombstone, Answer: &testserver.Answer{Status: 201, Header: answer().Header}}
	unknown := testserver.Settlement{State: testserver.Unknown}
	free := testserver.Settlement{}
	settle := func(h testserver.Hold, e testserver.Settlement) error { return s.Settle(t.Context(), h, e) }

	for name, end := range map[string]testserver.Settlement{"completed": completed(), "tombstone": tombstone, "unknown": unknown} {
		t.Run(name+" may be said twice", func(t *testing.T) {
			h := held(t, s, claimOf("twice "+name))
			require.NoError(t, settle(h, end))
			require.NoError(t, settle(h, end))
			r, err := s.Look(t.Context(), h.ID)
			require.NoError(t, err)
			require.Equal(t, end.State, r.State)
			require.Equal(t, end.Answer, r.Answer)
		})
	}
	t.Run("one end excludes another", func(t *testing.T) {
		h := held(t, s, claimOf("ends"))
		require.NoError(t, settle(h, completed()))
		other := completed()
		other.Answer.Body = []byte("other")
		for _, e := range []testserver.Settlement{other, tombstone, unknown, free} {
			require.ErrorIs(t, settle(h, e), testserver.ErrLost, "%v", e.State)
		}
	})
	t.Run("unknown may still be completed, B48", func(t *testing.T) {
		h := held(t, s, claimOf("resolved"))
		require.NoError(t, settle(h, unknown))
		require.NoError(t, settle(h, completed()))
	})
	t.Run("free removes the record, and again", func(t *testing.T) {
		h := held(t, s, claimOf("freed"))
		require.NoError(t, settle(h, free))
		require.NoError(t, settle(h, free))
		held(t, s, claimOf("freed"))
		require.ErrorIs(t, settle(h, free), testserver.ErrLost)
	})
	t.Run("free is refused once the effect has started, B21", func(t *testing.T) {
		c := claimOf("started")
		c.Started = true
		h := held(t, s, c)
		require.ErrorIs(t, settle(h, free), testserver.ErrStarted)
		require.NoError(t, settle(h, unknown))
		require.ErrorIs(t, settle(h, free), testserver.ErrStarted)
	})
	t.Run("a hold of another fence or owner is lost, B9, B10", func(t *testing.T) {
		h := held(t, s, claimOf("fenced"))
		for _, other := range []testserver.Hold{{ID: h.ID, Owner: h.Owner, Fence: 2}, {ID: h.ID, Owner: testserver.NewOwner(), Fence: 1}} {
			for _, e := range []testserver.Settlement{completed(), unknown, free} {
				require.ErrorIs(t, settle(other, e), testserver.ErrLost)
			}
		}
	})
	t.Run("an answer that is too large is refused, and the hold stays", func(t *testing.T) {
		h := held(t, s, claimOf("large"))
		big := completed()
		big.Answer.Header = append(big.Answer.Header, testserver.Field{Name: "X", Value: string(make([]byte, 9<<20))})
		require.ErrorIs(t, settle(h, big), ErrTooLarge)
		require.NoError(t, settle(h, tombstone))
	})
	t.Run("an end after the retention is kept for another", func(t *testing.T) {
		h := held(t, s, claimOf("late"))
		age(t, s, h.ID, 2*time.Hour)
		require.NoError(t, settle(h, completed()))
		require.Equal(t, testserver.Completed, claim(t, s, claimOf("late")).State)
	})
}

func TestLook(t *testing.T) {
	s := empty(t)
	look := func(key string) testserver.Record {
		t.Helper()
		r, err := s.Look(t.Context(), testserver.ID{Scope: "s", Key: key})
		require.NoError(t, err)
		return r
	}
	require.Equal(t, testserver.Record{ID: testserver.ID{Scope: "s", Key: "none"}}, look("none"))
	h := held(t, s, claimOf("lapsed"))
	age(t, s, h.ID, 2*time.Minute)
	for range 2 {
		r := look("lapsed")
		require.Equal(t, testserver.Pending, r.State, "it is not changed")
		require.Zero(t, r.Left)
		require.Equal(t, h, r.Hold())
	}
	require.NoError(t, s.Settle(t.Context(), h, completed()))
	age(t, s, h.ID, 2*time.Hour)
	require.Equal(t, testserver.Free, look("lapsed").State, "it has expired")
}

func TestLeaseBoundaries(t *testing.T) { inAllModes(t, testLeaseBoundaries) } // B6

func testLeaseBoundaries(t *testing.T, s *Store) {
	for _, lease := range []time.Duration{-time.Hour, 0, 1, 999, time.Microsecond} {
		c := claimOf(lease.String())
		c.Lease = lease
		require.True(t, claim(t, s, c).HeldBy(c.Owner))
		time.Sleep(time.Millisecond)
		d := claimOf(lease.String())
		require.Equal(t, int64(2), held(t, s, d).Fence, "a lease of %v lapses", lease)
	}
	c := claimOf("for ever")
	c.Lease, c.Retention = 1<<63-1, 1<<63-1
	require.Greater(t, claim(t, s, c).Left, 24*365*time.Hour)
}

func TestWait(t *testing.T) {
	s := empty(t)
	other := open(t, s.DB.Config().ConnString())
	wait := func(s *Store, key string) <-chan error {
		done := make(chan error, 1)
		go func() { done <- s.Wait(t.Context(), testserver.ID{Scope: "s", Key: key}) }()
		return done
	}
	waits := func(done <-chan error) {
		t.Helper()
		select {
		case err := <-done:
			t.Fatal("did not wait", err)
		case <-time.After(200 * time.Millisecond):
		}
	}
	for name, waiter := range map[string]*Store{"in this process": s, "in another process": other} {
		for event, happens := range map[string]func(testserver.Hold){
			"settled": func(h testserver.Hold) { require.NoError(t, s.Settle(t.Context(), h, completed())) },
			"freed":   func(h testserver.Hold) { require.NoError(t, s.Settle(t.Context(), h, testserver.Settlement{})) },
			"lapsed":  func(h testserver.Hold) { age(t, s, h.ID, time.Hour) },
		} {
			t.Run(event+" "+name, func(t *testing.T) {
				h := held(t, s, claimOf(event+name))
				done := wait(waiter, h.ID.Key)
				waits(done)
				happens(h)
				require.NoError(t, soon(t, done))
			})
		}
	}
	t.Run("does not wait for what is not pending", func(t *testing.T) { require.NoError(t, soon(t, wait(s, "none"))) })
	t.Run("ends with its context", func(t *testing.T) {
		h := held(t, s, claimOf("cancelled"))
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan error, 1)
		go func() { done <- s.Wait(ctx, h.ID) }()
		waits(done)
		cancel()
		require.ErrorIs(t, soon(t, done), context.Canceled)
		require.Empty(t, s.waiting.keys)
	})
	t.Run("many waiters of many keys are all woken", func(t *testing.T) {
		var wg sync.WaitGroup
		var holds []testserver.Hold
		for i := range 20 {
			h := held(t, s, claimOf(string(rune('A'+i))))
			holds = append(holds, h)
			for _, waiter := range []*Store{s, s, other} {
				wg.Go(func() {
					if err := waiter.Wait(t.Context(), h.ID); err != nil {
						t.Error(err)
					}
				})
			}
		}
		time.Sleep(50 * time.Millisecond)
		for _, h := range holds {
			require.NoError(t, s.Settle(t.Context(), h, completed()))
		}
		wg.Wait()
	})
	t.Run("ends when the store is closed, and nothing runs on", func(t *testing.T) {
		closing := open(t, s.DB.Config().ConnString(), func(s *Store, _ *pgxpoolConfig) { s.Notify = true })
		h := held(t, s, claimOf("closed"))
		done := wait(closing, h.ID.Key)
		waits(done)
		require.NoError(t, closing.Close())
		require.Error(t, soon(t, done))
		require.NoError(t, closing.Close(), "a second time")
		require.Error(t, closing.Wait(t.Context(), h.ID))
	})
}

func TestNotifyWakesOtherProcesses(t *testing.T) {
	notifying := func(s *Store, _ *pgxpoolConfig) { s.Notify, s.Poll = true, time.Hour }
	s := empty(t, notifying)
	other := open(t, s.DB.Config().ConnString(), notifying)
	require.NoError(t, other.Wait(t.Context(), testserver.ID{})) // listens from now on
	time.Sleep(300 * time.Millisecond)
	for i := range 20 {
		h := held(t, s, claimOf(string(rune('a'+i))))
		done := make(chan error, 1)
		go func() { done <- other.Wait(t.Context(), h.ID) }()
		time.Sleep(20 * time.Millisecond)
		require.NoError(t, s.Settle(t.Context(), h, completed()))
		require.NoError(t, soon(t, done))
	}
}

func TestPurge(t *testing.T) {
	s := empty(t)
	expired := func(key string, end *testserver.Settlement) {
		t.Helper()
		h := held(t, s, claimOf(key))
		if end != nil {
			require.NoError(t, s.Settle(t.Context(), h, *end))
		}
		age(t, s, h.ID, 2*time.Hour)
	}
	done := completed()
	for i := range 5 {
		expired("expired"+string(rune('0'+i)), &done)
	}
	expired("pending", nil) // B38
	expired("unknown", &testserver.Settlement{State: testserver.Unknown})
	require.NoError(t, s.Settle(t.Context(), held(t, s, claimOf("kept")), done))

	n, err := s.Purge(t.Context(), 3)
	require.NoError(t, err)
	require.Equal(t, 3, n)
	n, err = s.Purge(t.Context(), 1000)
	require.NoError(t, err)
	require.Equal(t, 2, n)
	for key, state := range map[string]testserver.State{"pending": testserver.Pending, "unknown": testserver.Unknown, "kept": testserver.Completed} {
		r, err := s.Look(t.Context(), testserver.ID{Scope: "s", Key: key})
		require.NoError(t, err)
		require.Equal(t, state, r.State, key)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
	defer cancel()
	expired("by the loop", &done)
	require.ErrorIs(t, s.KeepPurging(ctx, 10*time.Millisecond), context.DeadlineExceeded)
	var rows int
	require.NoError(t, s.DB.QueryRow(t.Context(), `SELECT count(*) FROM semel_keys`).Scan(&rows))
	require.Equal(t, 3, rows)
}
