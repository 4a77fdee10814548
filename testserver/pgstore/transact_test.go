package pgstore

import (
	"context"
	"errors"
	"fmt"
	"math"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"

	"github.com/semel-go/semel/testserver"
)

type work = func(context.Context) (*testserver.Answer, error)

// effects returns a store, work that has an effect, and a count of effects by key.
func effects(t testing.TB, adjust ...func(*Store, *pgxpoolConfig)) (s *Store, effect func(ctx context.Context, key string) error, count func(key string) int) {
	t.Helper()
	s = empty(t, adjust...)
	_, err := s.DB.Exec(t.Context(), `CREATE TABLE effects (key text)`)
	require.NoError(t, err)
	effect = func(ctx context.Context, key string) error {
		_, err := Tx(ctx).Exec(ctx, `INSERT INTO effects VALUES ($1)`, key)
		return err
	}
	count = func(key string) (n int) {
		t.Helper()
		require.NoError(t, s.DB.QueryRow(context.Background(), `SELECT count(*) FROM effects WHERE key = $1`, key).Scan(&n))
		return n
	}
	return s, effect, count
}

// answering is work with one effect.
func answering(effect func(context.Context, string) error, key string) work {
	return func(ctx context.Context) (*testserver.Answer, error) {
		return answer(), effect(ctx, key)
	}
}

func raise(ctx context.Context, state string) error {
	_, err := Tx(ctx).Exec(ctx, `DO $$ BEGIN RAISE EXCEPTION 'asked for' USING ERRCODE = '`+state+`'; END $$`)
	return err
}

func stateOf(t testing.TB, s *Store, key string) testserver.State {
	t.Helper()
	r, err := s.Look(context.Background(), testserver.ID{Scope: "s", Key: key})
	require.NoError(t, err)
	return r.State
}

func TestTransactCommitsByTheAnswer(t *testing.T) {
	for _, name := range []string{"prepared", "pooler", "simple protocol", "serializable"} {
		t.Run(name, func(t *testing.T) { testTransactCommitsByTheAnswer(t, modes[name]) })
	}
}

func testTransactCommitsByTheAnswer(t *testing.T, mode func(*Store, *pgxpoolConfig)) {
	s, effect, count := effects(t, mode)
	boom := errors.New("boom")
	for name, c := range map[string]struct {
		then    func(ctx context.Context) (*testserver.Answer, error)
		effects int
		state   testserver.State
		err     error // nil with state Free: any
	}{
		"an answer commits":            {func(context.Context) (*testserver.Answer, error) { return answer(), nil }, 1, testserver.Completed, nil},
		"a refusal keeps only itself":  {func(context.Context) (*testserver.Answer, error) { return &testserver.Answer{Status: 400}, nil }, 0, testserver.Completed, nil},
		"an error rolls all back, B40": {func(context.Context) (*testserver.Answer, error) { return answer(), boom }, 0, testserver.Free, boom},
		"no answer rolls all back":     {func(context.Context) (*testserver.Answer, error) { return nil, nil }, 0, testserver.Free, nil},
		"a success after a failed statement is none": {func(ctx context.Context) (*testserver.Answer, error) {
			_ = raise(ctx, "23505")
			return answer(), nil
		}, 0, testserver.Free, nil},
		"a refusal after a failed statement is one": {func(ctx context.Context) (*testserver.Answer, error) {
			_ = raise(ctx, "23505")
			return &testserver.Answer{Status: 409}, nil
		}, 0, testserver.Completed, nil},
		"a failed statement in a savepoint is undone": {func(ctx context.Context) (*testserver.Answer, error) {
			require.Error(t, pgx.BeginFunc(ctx, Tx(ctx), func(tx pgx.Tx) error {
				_, err := tx.Exec(ctx, `INSERT INTO nowhere VALUES (1)`)
				return err
			}))
			return answer(), nil
		}, 1, testserver.Completed, nil},
		"Commit is refused": {func(ctx context.Context) (*testserver.Answer, error) { return answer(), Tx(ctx).Commit(ctx) },
			0, testserver.Free, ErrNotYours},
		"Rollback is refused": {func(ctx context.Context) (*testserver.Answer, error) { return answer(), Tx(ctx).Rollback(ctx) },
			0, testserver.Free, ErrNotYours},
		"an open query rolls all back": {func(ctx context.Context) (*testserver.Answer, error) {
			_, err := Tx(ctx).Query(ctx, `SELECT generate_series(1, 100000)`)
			return answer(), err
		}, 0, testserver.Free, nil},
		"too large an answer rolls all back": {func(context.Context) (*testserver.Answer, error) {
			return &testserver.Answer{Status: 200, Body: make([]byte, 9<<20)}, nil
		}, 0, testserver.Free, ErrTooLarge},
		"a statement of its own that rolls back and begins is found out": {func(ctx context.Context) (*testserver.Answer, error) {
			_, err := Tx(ctx).Exec(ctx, `ROLLBACK; BEGIN; INSERT INTO effects VALUES ('x')`, pgx.QueryExecModeSimpleProtocol)
			return answer(), err
		}, 0, testserver.Free, testserver.ErrInDoubt},
		"a lost connection rolls all back": {func(ctx context.Context) (*testserver.Answer, error) {
			_, _ = Tx(ctx).Exec(ctx, `SELECT pg_terminate_backend(pg_backend_pid())`)
			return answer(), nil
		}, 0, testserver.Free, nil},
		"a caller who is gone does not stop the commit, B13": {func(ctx context.Context) (*testserver.Answer, error) {
			ctx.Value(cancelKey{}).(context.CancelFunc)()
			return answer(), nil
		}, 1, testserver.Completed, nil},
	} {
		t.Run(name, func(t *testing.T) {
			ctx, cancel := context.WithCancel(t.Context())
			ctx = context.WithValue(ctx, cancelKey{}, cancel)
			r, err := s.Transact(ctx, claimOf(name), 0, func(ctx context.Context) (*testserver.Answer, error) {
				if err := effect(ctx, name); err != nil {
					return nil, err
				}
				return c.then(ctx)
			})
			if c.state == testserver.Free {
				require.Error(t, err)
			} else {
				require.NoError(t, err)
				require.Equal(t, testserver.Completed, r.State)
			}
			if c.err != nil {
				require.ErrorIs(t, err, c.err)
			}
			require.Equal(t, c.effects, count(name))
			require.Zero(t, count("x"))
			require.Equal(t, c.state, stateOf(t, s, name))
		})
	}
}

type cancelKey struct{}

func TestTransactRollsBackAPanic(t *testing.T) {
	s, effect, count := effects(t)
	require.PanicsWithValue(t, "boom", func() {
		_, _ = s.Transact(t.Context(), claimOf("k"), 0, func(ctx context.Context) (*testserver.Answer, error) {
			require.NoError(t, effect(ctx, "k"))
			panic("boom")
		})
	})
	require.Zero(t, count("k"))
	require.Equal(t, testserver.Free, stateOf(t, s, "k"))
	require.Zero(t, s.DB.Stat().AcquiredConns())
	_, err := s.Transact(t.Context(), claimOf("k"), 0, func(context.Context) (*testserver.Answer, error) { return answer(), nil })
	require.NoError(t, err, "the key is free for others")
}

func TestTransactRunsAgainWhenTheDatabaseAsks(t *testing.T) { // B42, faults.md 30
	s, effect, count := effects(t)
	for name, c := range map[string]struct {
		state string
		then  func(ctx context.Context, err error) (*testserver.Answer, error)
	}{
		"with its error": {"40001", func(_ context.Context, err error) (*testserver.Answer, error) { return nil, err }},
		"wrapped": {"40P01", func(_ context.Context, err error) (*testserver.Answer, error) {
			return nil, fmt.Errorf("mine: %w", err)
		}},
		"behind another":     {"40001", func(context.Context, error) (*testserver.Answer, error) { return nil, errors.New("mine") }},
		"behind an answer":   {"40001", func(context.Context, error) (*testserver.Answer, error) { return &testserver.Answer{Status: 503}, nil }},
		"behind a success":   {"40001", func(context.Context, error) (*testserver.Answer, error) { return answer(), nil }},
		"behind a next one ": {"40001", func(ctx context.Context, _ error) (*testserver.Answer, error) { return nil, effect(ctx, "") }},
	} {
		t.Run(name, func(t *testing.T) {
			runs := 0
			_, err := s.Transact(t.Context(), claimOf(name), 0, func(ctx context.Context) (*testserver.Answer, error) {
				runs++
				require.NoError(t, effect(ctx, name))
				if runs < 3 {
					return c.then(ctx, raise(ctx, c.state))
				}
				return answer(), nil
			})
			require.NoError(t, err)
			require.Equal(t, 3, runs)
			require.Equal(t, 1, count(name))
		})
	}
	t.Run("but not for ever", func(t *testing.T) {
		runs := 0
		_, err := s.Transact(t.Context(), claimOf("always"), 0, func(ctx context.Context) (*testserver.Answer, error) {
			runs++
			return nil, raise(ctx, "40001")
		})
		require.Equal(t, "40001", code(err))
		require.Equal(t, tries, runs)
	})
	t.Run("not after another error", func(t *testing.T) {
		runs := 0
		_, err := s.Transact(t.Context(), claimOf("once"), 0, func(ctx context.Context) (*testserver.Answer, error) {
			runs++
			return nil, raise(ctx, "57P01")
		})
		require.Error(t, err)
		require.Equal(t, 1, runs)
	})
	t.Run("not when a savepoint has undone it", func(t *testing.T) {
		runs := 0
		_, err := s.Transact(t.Context(), claimOf("savepoint"), 0, func(ctx context.Context) (*testserver.Answer, error) {
			runs++
			sp, err := Tx(ctx).Begin(ctx)
			require.NoError(t, err)
			_, _ = sp.Exec(ctx, `DO $$ BEGIN RAISE EXCEPTION 'asked for' USING ERRCODE = '40001'; END $$`)
			require.NoError(t, sp.Rollback(ctx))
			require.ErrorIs(t, sp.Rollback(ctx), pgx.ErrTxClosed)
			return &testserver.Answer{Status: 409}, nil
		})
		require.NoError(t, err)
		require.Equal(t, 1, runs)
	})
}

func TestTransactUnderStrongIsolation(t *testing.T) { // B42
	for _, level := range []string{"read committed", "repeatable read", "serializable"} {
		for name, adjust := range map[string]func(*Store, *pgxpoolConfig){
			"by the store": func(s *Store, _ *pgxpoolConfig) { s.Isolation = pgx.TxIsoLevel(level) },
			"by the DSN": func(_ *Store, c *pgxpoolConfig) {
				c.ConnConfig.RuntimeParams["default_transaction_isolation"] = level
			},
		} {
			t.Run(level+" "+name, func(t *testing.T) {
				s, effect, count := effects(t, adjust, func(_ *Store, c *pgxpoolConfig) { c.MaxConns = 8 })
				other := open(t, s.DB.Config().ConnString(), adjust)
				var wg sync.WaitGroup
				for i := range 4 {
					for _, on := range []*Store{s, s, other} {
						wg.Go(func() {
							key := fmt.Sprint("k", i)
							r, err := on.Transact(t.Context(), claimOf(key), 5*time.Second, func(ctx context.Context) (*testserver.Answer, error) {
								var n int
								if err := Tx(ctx).QueryRow(ctx, `SELECT count(*) FROM effects`).Scan(&n); err != nil {
									return nil, err
								}
								time.Sleep(5 * time.Millisecond)
								return answer(), effect(ctx, key)
							})
							if err != nil && !again(err) { // which happens after some tries, and says that nothing was committed
								t.Error(err)
							} else if err == nil && r.State != testserver.Completed {
								t.Error(r.State)
							}
						})
					}
				}
				wg.Wait()
				for i := range 4 {
					require.LessOrEqual(t, count(fmt.Sprint("k", i)), 1)
				}
				c := claimOf("lease mode")
				held(t, s, c)
				age(t, s, c.ID, 2*time.Minute)
				h := held(t, s, claimOf("lease mode"))
				renewals, err := s.Renew(t.Context(), time.Minute, []testserver.Hold{h})
				require.NoError(t, err)
				require.Equal(t, testserver.Renewed, renewals[0])
				require.NoError(t, s.Settle(t.Context(), h, completed()))
				age(t, s, h.ID, 2*time.Hour)
				n, err := s.Purge(t.Context(), 10)
				require.NoError(t, err)
				require.Equal(t, 1, n)
			})
		}
	}
}

func TestTransactWaitsForTheKey(t *testing.T) {
	for _, place := range []string{"in this process", "in another process"} {
		s, effect, count := effects(t)
		other := s
		if place != "in this process" {
			other = open(t, s.DB.Config().ConnString())
		}
		start := func(key string, end chan error) chan error {
			running, done := make(chan struct{}), make(chan error, 1)
			go func() {
				_, err := s.Transact(t.Context(), claimOf(key), 0, func(ctx context.Context) (*testserver.Answer, error) {
					err := effect(ctx, key)
					close(running)
					select {
					case asked := <-end:
						return answer(), errors.Join(err, asked)
					case <-t.Context().Done(): // a test that failed does not wait
						return nil, context.Cause(t.Context())
					}
				})
				done <- err
			}()
			<-running
			return done
		}
		again := func(key string, wait time.Duration) (testserver.Record, error) {
			return other.Transact(t.Context(), claimOf(key), wait, answering(effect, key))
		}
		t.Run("busy at once without a wait "+place, func(t *testing.T) {
			end := make(chan error)
			done := start("busy", end)
			_, err := again("busy", 0)
			require.ErrorIs(t, err, testserver.ErrBusy)
			close(end)
			require.NoError(t, soon(t, done))
		})
		t.Run("busy after the wait "+place, func(t *testing.T) {
			end := make(chan error)
			done := start("busy later", end)
			began := time.Now()
			_, err := again("busy later", 100*time.Millisecond)
			require.ErrorIs(t, err, testserver.ErrBusy)
			require.GreaterOrEqual(t, time.Since(began), 100*time.Millisecond)
			close(end)
			require.NoError(t, soon(t, done))
		})
		t.Run("committed before a wait for ever has ended "+place, func(t *testing.T) {
			end := make(chan error)
			done := start("for ever", end)
			go func() { time.Sleep(50 * time.Millisecond); close(end) }()
			_, err := again("for ever", math.MaxInt64)
			require.NoError(t, err)
			require.NoError(t, soon(t, done))
		})
		t.Run("replays what is committed "+place, func(t *testing.T) {
			end := make(chan error)
			done := start("replay", end)
			go func() { time.Sleep(50 * time.Millisecond); close(end) }()
			r, err := again("replay", time.Minute)
			require.NoError(t, err)
			require.Equal(t, answer(), r.Answer)
			require.NoError(t, soon(t, done))
			require.Equal(t, 1, count("replay"))
		})
		t.Run("runs after a rollback, faults.md 31 "+place, func(t *testing.T) {
			end := make(chan error)
			done := start("rerun", end)
			go func() { time.Sleep(50 * time.Millisecond); end <- errors.New("no") }()
			_, err := again("rerun", time.Minute)
			require.NoError(t, err)
			require.Error(t, soon(t, done))
			require.Equal(t, 1, count("rerun"))
		})
	}
}

func TestOneHotKeyDoesNotStarveThePool(t *testing.T) {
	s, effect, count := effects(t, func(_ *Store, c *pgxpoolConfig) { c.MaxConns = 2 })
	end := make(chan struct{})
	var wg sync.WaitGroup
	var answered atomic.Int32
	for range 30 {
		wg.Go(func() {
			r, err := s.Transact(t.Context(), claimOf("hot"), time.Minute, func(ctx context.Context) (*testserver.Answer, error) {
				select {
				case <-end:
				case <-t.Context().Done():
				}
				return answer(), effect(ctx, "hot")
			})
			if err == nil && r.Answer != nil {
				answered.Add(1)
			}
		})
	}
	require.Eventually(t, func() bool { return s.DB.Stat().AcquiredConns() == 1 }, 10*time.Second, time.Millisecond)
	for i := range 5 {
		_, err := s.Transact(t.Context(), claimOf(fmt.Sprint("cold", i)), 0, func(ctx context.Context) (*testserver.Answer, error) {
			return answer(), effect(ctx, "cold")
		})
		require.NoError(t, err)
	}
	close(end)
	wg.Wait()
	require.EqualValues(t, 30, answered.Load())
	require.Equal(t, 1, count("hot"))
}

func TestTransactOfAKeyWithARecord(t *testing.T) {
	s, effect, count := effects(t)
	transact := func(key string) testserver.Record {
		t.Helper()
		c := claimOf(key)
		r, err := s.Transact(t.Context(), c, 0, answering(effect, key))
		require.NoError(t, err)
		return r
	}
	t.Run("pending is told", func(t *testing.T) {
		h := held(t, s, claimOf("pending"))
		require.Equal(t, h, transact("pending").Hold())
		require.Zero(t, count("pending"))
	})
	t.Run("lapsed is taken over", func(t *testing.T) {
		h := held(t, s, claimOf("lapsed"))
		age(t, s, h.ID, 2*time.Minute)
		r := transact("lapsed")
		require.Equal(t, testserver.Completed, r.State)
		require.EqualValues(t, 2, r.Fence)
		require.Equal(t, 1, count("lapsed"))
		require.ErrorIs(t, s.Settle(t.Context(), h, completed()), testserver.ErrLost)
	})
	t.Run("lapsed and started turns unknown", func(t *testing.T) {
		c := claimOf("started")
		c.Started = true
		held(t, s, c)
		age(t, s, c.ID, 2*time.Minute)
		require.Equal(t, testserver.Unknown, transact("started").State)
		require.Equal(t, testserver.Unknown, stateOf(t, s, "started"))
		require.Zero(t, count("started"))
	})
	t.Run("expired is overwritten", func(t *testing.T) {
		transact("expired")
		age(t, s, claimOf("expired").ID, 2*time.Hour)
		transact("expired")
		require.Equal(t, 2, count("expired"))
		require.Equal(t, testserver.Completed, transact("expired").State)
		require.Equal(t, 2, count("expired"))
	})
	t.Run("a refusal over a lapsed record is kept", func(t *testing.T) {
		h := held(t, s, claimOf("refused"))
		age(t, s, h.ID, 2*time.Minute)
		r, err := s.Transact(t.Context(), claimOf("refused"), 0, func(ctx context.Context) (*testserver.Answer, error) {
			return &testserver.Answer{Status: 402}, effect(ctx, "refused")
		})
		require.NoError(t, err)
		require.EqualValues(t, 2, r.Fence)
		require.Equal(t, 402, transact("refused").Answer.Status)
		require.Zero(t, count("refused"))
	})
}

func TestWorkThatCommitsByItselfIsNeverRunAgain(t *testing.T) {
	s, effect, count := effects(t)
	c := claimOf("k")
	c.Lease = time.Millisecond
	commit := func(ctx context.Context) (*testserver.Answer, error) {
		if err := effect(ctx, "k"); err != nil {
			return nil, err
		}
		_, err := Tx(ctx).Exec(ctx, `COMMIT`)
		return answer(), err
	}
	_, err := s.Transact(t.Context(), c, 0, commit)
	require.ErrorIs(t, err, testserver.ErrInDoubt)
	time.Sleep(10 * time.Millisecond)
	r, err := s.Transact(t.Context(), claimOf("k"), 0, commit)
	require.NoError(t, err)
	require.Equal(t, testserver.Unknown, r.State)
	require.Equal(t, 1, count("k"))
}

func TestTx(t *testing.T) {
	s, _, _ := effects(t, func(_ *Store, c *pgxpoolConfig) { c.ConnConfig.RuntimeParams["lock_timeout"] = "1234ms" })
	require.Nil(t, Tx(t.Context()))
	var leaked pgx.Tx
	_, err := s.Transact(t.Context(), claimOf("k"), 0, func(ctx context.Context) (*testserver.Answer, error) {
		tx := Tx(ctx)
		leaked = tx
		var timeout string
		require.NoError(t, tx.QueryRow(ctx, `SHOW lock_timeout`).Scan(&timeout))
		require.Equal(t, "1234ms", timeout, "the work's own")
		b := &pgx.Batch{}
		b.Queue(`INSERT INTO effects VALUES ('a')`)
		b.Queue(`SELECT 1`)
		require.NoError(t, tx.SendBatch(ctx, b).Close())
		n, err := tx.CopyFrom(ctx, pgx.Identifier{"effects"}, []string{"key"}, pgx.CopyFromRows([][]any{{"b"}, {"c"}}))
		require.NoError(t, err)
		require.EqualValues(t, 2, n)
		large := tx.LargeObjects()
		_, err = large.Create(ctx, 0)
		require.NoError(t, err)
		sp, err := tx.Begin(ctx)
		require.NoError(t, err)
		inner, err := sp.Begin(ctx)
		require.NoError(t, err)
		_, err = inner.Exec(ctx, `INSERT INTO effects VALUES ('d')`)
		require.NoError(t, err)
		require.NoError(t, inner.Commit(ctx))
		require.NoError(t, sp.Rollback(ctx))
		_, err = inner.Exec(ctx, `SELECT 1`)
		require.ErrorIs(t, err, pgx.ErrTxClosed)
		return answer(), nil
	})
	require.NoError(t, err)
	var n int
	require.NoError(t, s.DB.QueryRow(t.Context(), `SELECT count(*) FROM effects`).Scan(&n))
	require.Equal(t, 3, n)
	_, err = leaked.Exec(t.Context(), `INSERT INTO effects VALUES ('late')`)
	require.ErrorIs(t, err, pgx.ErrTxClosed)
	_, err = leaked.Query(t.Context(), `SELECT 1`)
	require.ErrorIs(t, err, pgx.ErrTxClosed)
	require.ErrorIs(t, leaked.QueryRow(t.Context(), `SELECT 1`).Scan(&n), pgx.ErrTxClosed)
	require.ErrorIs(t, leaked.SendBatch(t.Context(), &pgx.Batch{}).Close(), pgx.ErrTxClosed)
	_, err = leaked.Begin(t.Context())
	require.ErrorIs(t, err, pgx.ErrTxClosed)
}
