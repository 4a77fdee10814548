package pgstore

import (
	"context"
	"errors"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/stretchr/testify/require"

	"github.com/semel-go/semel/testserver"
	"github.com/semel-go/semel/testserver/pgstore/pgtest"
)

type pgxpoolConfig = pgxpool.Config

// open returns a store on dsn with its table made; adjust may change it before its first use.
func open(t testing.TB, dsn string, adjust ...func(*Store, *pgxpool.Config)) *Store {
	t.Helper()
	config, err := pgxpool.ParseConfig(dsn)
	require.NoError(t, err)
	s := &Store{}
	for _, f := range adjust {
		f(s, config)
	}
	s.Configure(config)
	s.DB = pgtest.Pool(t, config)
	t.Cleanup(func() { require.NoError(t, s.Close()) })
	require.NoError(t, s.CreateSchema(t.Context()))
	return s
}

func empty(t testing.TB, adjust ...func(*Store, *pgxpool.Config)) *Store {
	t.Helper()
	return open(t, pgtest.DSN(t), adjust...)
}

// claimOf is a claim of a key with a long lease.
func claimOf(key string) testserver.Claim {
	return testserver.Claim{
		ID: testserver.ID{Scope: "s", Key: key}, Fingerprint: testserver.Fingerprint{1}, Owner: testserver.NewOwner(),
		Lease: time.Minute, Retention: time.Hour,
	}
}

// soon receives what must come.
func soon[T any](t testing.TB, c <-chan T) T {
	t.Helper()
	select {
	case v := <-c:
		return v
	case <-time.After(time.Minute):
		t.Fatal("nothing has come within a minute")
		panic("unreachable")
	}
}

func claim(t testing.TB, s *Store, c testserver.Claim) testserver.Record {
	t.Helper()
	r, err := s.Claim(t.Context(), c)
	require.NoError(t, err)
	return r
}

// held claims and requires to hold.
func held(t testing.TB, s *Store, c testserver.Claim) testserver.Hold {
	t.Helper()
	r := claim(t, s, c)
	require.True(t, r.HeldBy(c.Owner), "%+v", r)
	return r.Hold()
}

func answer() *testserver.Answer {
	return &testserver.Answer{Status: 201, Header: []testserver.Field{{Name: "Link", Value: "a"}, {Name: "Location", Value: "/t/1"}, {Name: "Link", Value: "b"}}, Body: []byte("{\"a\":1.50, \x00\xff}")}
}

func completed() testserver.Settlement {
	return testserver.Settlement{State: testserver.Completed, Answer: answer()}
}

// age makes a row older, its lease and its expiry too.
func age(t testing.TB, s *Store, id testserver.ID, by time.Duration) {
	t.Helper()
	tag, err := s.DB.Exec(t.Context(), `UPDATE `+s.statements().table+` SET lease_until = lease_until - $2::bigint * interval '1 microsecond',
		created_at = created_at - $2::bigint * interval '1 microsecond', expires_at = expires_at - $2::bigint * interval '1 microsecond'
		WHERE id = $1`, at(id), by.Microseconds())
	require.NoError(t, err)
	require.EqualValues(t, 1, tag.RowsAffected())
}

func TestClaim(t *testing.T) { inAllModes(t, testClaim) }

func testClaim(t *testing.T, s *Store) {
	other := func(c testserver.Claim) testserver.Claim { c.Owner = testserver.NewOwner(); return c }

	t.Run("takes a key without a record", func(t *testing.T) {
		c := claimOf("free")
		r := claim(t, s, c)
		require.True(t, r.HeldBy(c.Owner))
		require.EqualValues(t, 1, r.Fence)
		require.InDelta(t, time.Minute, r.Left, float64(10*time.Second))
		require.Equal(t, c.ID, r.ID)
		require.Equal(t, c.Fingerprint, r.Fingerprint)
	})
	t.Run("finds its own record again, B35", func(t *testing.T) {
		c := claimOf("own")
		held(t, s, c)
		age(t, s, c.ID, 50*time.Second)
		r := claim(t, s, c)
		require.True(t, r.HeldBy(c.Owner))
		require.EqualValues(t, 1, r.Fence)
		require.Greater(t, r.Left, 40*time.Second, "its lease begins anew")
	})
	t.Run("does not take a pending record", func(t *testing.T) {
		c := claimOf("pending")
		held(t, s, c)
		d := other(c)
		r := claim(t, s, d)
		require.Equal(t, testserver.Pending, r.State)
		require.Equal(t, c.Owner, r.Owner)
	})
	t.Run("returns the answer of a completed record byte by byte, B27", func(t *testing.T) {
		c := claimOf("completed")
		require.NoError(t, s.Settle(t.Context(), held(t, s, c), completed()))
		r := claim(t, s, other(c))
		require.Equal(t, testserver.Completed, r.State)
		require.Equal(t, answer(), r.Answer)
	})
	t.Run("takes over a lapsed record with the next fence", func(t *testing.T) {
		c := claimOf("lapsed")
		old := held(t, s, c)
		age(t, s, c.ID, 2*time.Minute)
		d := other(c)
		h := held(t, s, d)
		require.Equal(t, old.Fence+1, h.Fence)
		require.ErrorIs(t, s.Settle(t.Context(), old, completed()), testserver.ErrLost, "B9")
		require.ErrorIs(t, s.Settle(t.Context(), old, testserver.Settlement{}), testserver.ErrLost, "B9")
		require.NoError(t, s.Settle(t.Context(), h, completed()))
	})
	t.Run("never takes over once the effect has started, B7", func(t *testing.T) {
		c := claimOf("started")
		c.Started = true
		h := held(t, s, c)
		age(t, s, c.ID, 2*time.Minute)
		r := claim(t, s, other(c))
		require.Equal(t, testserver.Unknown, r.State)
		require.Equal(t, h, r.Hold(), "owner and fence stay")
		require.NoError(t, s.Settle(t.Context(), h, completed()), "the late settlement completes it")
	})
	t.Run("never takes over after RerunFor", func(t *testing.T) {
		c := claimOf("old")
		c.RerunFor = time.Minute
		held(t, s, c)
		age(t, s, c.ID, 2*time.Minute)
		require.Equal(t, testserver.Unknown, claim(t, s, other(c)).State)
	})
	t.Run("never touches a record with another fingerprint", func(t *testing.T) {
		c := claimOf("reused")
		h := held(t, s, c)
		age(t, s, c.ID, 2*time.Minute)
		d := other(c)
		d.Fingerprint[0]++
		r := claim(t, s, d)
		require.Equal(t, testserver.Pending, r.State)
		require.Equal(t, h, r.Hold())
		require.Zero(t, r.Left)
	})
	t.Run("takes an expired terminal record, whatever its fingerprint", func(t *testing.T) {
		c := claimOf("expired")
		h := held(t, s, c)
		require.NoError(t, s.Settle(t.Context(), h, completed()))
		age(t, s, c.ID, 2*time.Hour)
		d := other(c)
		d.Fingerprint[0]++
		r := claim(t, s, d)
		require.True(t, r.HeldBy(d.Owner))
		require.Equal(t, h.Fence+1, r.Fence)
		require.Equal(t, d.Fingerprint, r.Fingerprint)
		require.Less(t, r.Age, time.Minute)
		require.Nil(t, r.Answer)
	})
	t.Run("keeps scopes apart, B24", func(t *testing.T) {
		c := claimOf("scoped")
		held(t, s, c)
		d := other(c)
		d.ID.Scope = "other"
		held(t, s, d)
	})
	t.Run("takes arbitrary bytes", func(t *testing.T) {
		for _, key := range []string{"", "\x00", "\xff\xfe'\"\\", string(make([]byte, 5000)), string(make([]byte, 5001))} {
			c := claimOf(key)
			c.ID.Scope = key
			held(t, s, c)
		}
	})
}

func TestOneOfManyClaimsWins(t *testing.T) { // B1, B2
	s := empty(t)
	for name, prepare := range map[string]func(testserver.Claim){
		"fresh": func(testserver.Claim) {},
		"lapsed": func(c testserver.Claim) {
			held(t, s, c)
			age(t, s, c.ID, 2*time.Minute)
		},
		"expired": func(c testserver.Claim) {
			require.NoError(t, s.Settle(t.Context(), held(t, s, c), completed()))
			age(t, s, c.ID, 2*time.Hour)
		},
		"just freed": func(c testserver.Claim) {
			require.NoError(t, s.Settle(t.Context(), held(t, s, c), testserver.Settlement{}))
		},
	} {
		t.Run(name, func(t *testing.T) {
			c := claimOf(name)
			prepare(c)
			var wg sync.WaitGroup
			var mu sync.Mutex
			winners := map[int64]int{}
			for range 50 {
				wg.Go(func() {
					d := c
					d.Owner = testserver.NewOwner()
					r, err := s.Claim(t.Context(), d)
					mu.Lock()
					defer mu.Unlock()
					if err != nil {
						t.Error(err)
					} else if r.HeldBy(d.Owner) {
						winners[r.Fence]++
					}
				})
			}
			wg.Wait()
			require.Len(t, winners, 1)
			for fence, n := range winners {
				require.Equal(t, 1, n, "fence %d", fence)
			}
		})
	}
}

func TestTransact(t *testing.T) { inAllModes(t, testTransact) }

func testTransact(t *testing.T, s *Store) {
	_, err := s.DB.Exec(t.Context(), `CREATE TABLE effects (key text)`)
	require.NoError(t, err)
	effects := func(key string) (n int) {
		require.NoError(t, s.DB.QueryRow(t.Context(), `SELECT count(*) FROM effects WHERE key = $1`, key).Scan(&n))
		return n
	}
	effect := func(key string, a *testserver.Answer, err error) func(context.Context) (*testserver.Answer, error) {
		return func(ctx context.Context) (*testserver.Answer, error) {
			if _, err := Tx(ctx).Exec(ctx, `INSERT INTO effects VALUES ($1)`, key); err != nil {
				return nil, err
			}
			return a, err
		}
	}
	t.Run("commits effect and answer together", func(t *testing.T) {
		c := claimOf("a")
		r, err := s.Transact(t.Context(), c, 0, effect("a", answer(), nil))
		require.NoError(t, err)
		require.Equal(t, testserver.Completed, r.State)
		require.Equal(t, c.Owner, r.Owner)
		require.Equal(t, 1, effects("a"))
		d := claimOf("a")
		r, err = s.Transact(t.Context(), d, 0, effect("a", answer(), nil))
		require.NoError(t, err)
		require.Equal(t, answer(), r.Answer)
		require.Equal(t, c.Owner, r.Owner)
		require.Equal(t, 1, effects("a"))
	})
	t.Run("rolls the effect back and keeps the answer from status 400 on", func(t *testing.T) {
		refused := &testserver.Answer{Status: 422, Body: []byte("no")}
		_, err := s.Transact(t.Context(), claimOf("b"), 0, effect("b", refused, nil))
		require.NoError(t, err)
		require.Zero(t, effects("b"))
		r, err := s.Look(t.Context(), claimOf("b").ID)
		require.NoError(t, err)
		require.Equal(t, 422, r.Answer.Status)
	})
	t.Run("rolls everything back on an error", func(t *testing.T) {
		boom := errors.New("boom")
		_, err := s.Transact(t.Context(), claimOf("c"), 0, effect("c", nil, boom))
		require.ErrorIs(t, err, boom)
		require.Zero(t, effects("c"))
		r, err := s.Look(t.Context(), claimOf("c").ID)
		require.NoError(t, err)
		require.Equal(t, testserver.Free, r.State)
	})
}
