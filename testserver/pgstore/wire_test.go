package pgstore

import (
	"context"
	"errors"
	"math"
	"net"
	"sync/atomic"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"

	"github.com/semel-go/semel/testserver"
)

// trips counts round trips: reads that follow a write.
type trips struct{ n atomic.Int64 }

// on makes a pool's connections count.
func (r *trips) on(_ *Store, c *pgxpoolConfig) {
	c.MaxConns, c.MinConns = 1, 1
	dial := c.ConnConfig.DialFunc
	c.ConnConfig.DialFunc = func(ctx context.Context, network, addr string) (net.Conn, error) {
		conn, err := dial(ctx, network, addr)
		return &countedConn{Conn: conn, trips: r}, err
	}
}

// of returns how many round trips f takes until it returns.
func (r *trips) of(f func()) int64 {
	before := r.n.Load()
	f()
	return r.n.Load() - before
}

type countedConn struct {
	net.Conn
	trips *trips
	wrote atomic.Bool
}

func (c *countedConn) Write(b []byte) (int, error) {
	c.wrote.Store(true)
	return c.Conn.Write(b)
}

func (c *countedConn) Read(b []byte) (int, error) {
	if c.wrote.Swap(false) {
		c.trips.n.Add(1)
	}
	return c.Conn.Read(b)
}

func TestRoundTrips(t *testing.T) {
	for name, mode := range map[string]func(*Store, *pgxpoolConfig){"prepared": modes["prepared"], "exec": modes["exec"]} {
		t.Run(name, func(t *testing.T) {
			var r trips
			s, effect, _ := effects(t, mode, r.on)
			s.DB.Reset() // the statements were prepared while there was no table
			require.NoError(t, s.DB.Ping(t.Context()))
			count := func(want int64, what string, f func()) {
				t.Helper()
				require.Equal(t, want, r.of(f), what)
			}
			var h testserver.Hold
			count(1, "a first claim on a new connection", func() { h = held(t, s, claimOf("a")) })
			count(1, "a claim of a pending key", func() { claim(t, s, claimOf("a")) })
			count(1, "a settlement", func() { require.NoError(t, s.Settle(t.Context(), h, completed())) })
			count(1, "a replay", func() { claim(t, s, claimOf("a")) })
			count(1, "a look", func() { _, _ = s.Look(t.Context(), h.ID) })

			plain := func() {
				require.NoError(t, pgx.BeginFunc(t.Context(), s.DB, func(tx pgx.Tx) error {
					_, err := tx.Exec(t.Context(), `INSERT INTO effects VALUES ($1)`, "k")
					return err
				}))
			}
			plain()
			count(3, "the handler's own transaction", plain)
			transact := func(key string, w work) func() {
				return func() { _, _ = s.Transact(t.Context(), claimOf(key), 0, w) }
			}
			count(3, "the same transaction under a key", transact("tx", answering(effect, "k")))
			idle := func() {
				t.Helper()
				require.Eventually(t, func() bool { return s.DB.Stat().AcquiredConns() == 0 }, 5*time.Second, time.Millisecond)
			}
			least := int64(math.MaxInt64) // the answer is there before the transaction is rolled back, which may be counted
			for range 20 {
				idle()
				least = min(least, r.of(transact("tx", answering(effect, "k"))))
			}
			require.EqualValues(t, 1, least, "its replay")
			idle()
			count(3, "a refusal", transact("refused", func(ctx context.Context) (*testserver.Answer, error) {
				return &testserver.Answer{Status: 402}, effect(ctx, "k")
			}))
			count(3, "an error", transact("error", func(ctx context.Context) (*testserver.Answer, error) {
				return nil, errors.Join(effect(ctx, "k"), errors.New("no"))
			}))
			held(t, s, claimOf("l"))
			age(t, s, claimOf("l").ID, 2*time.Minute)
			held(t, s, claimOf("l"))
			age(t, s, claimOf("l").ID, 2*time.Minute)
			count(2, "a takeover", func() { h = held(t, s, claimOf("l")) })
			_, err := s.Renew(t.Context(), time.Minute, []testserver.Hold{h})
			require.NoError(t, err)
			count(1, "a renewal of many", func() {
				_, err := s.Renew(t.Context(), time.Minute, []testserver.Hold{h, {}, {Fence: 1}})
				require.NoError(t, err)
			})
		})
	}
}

// TestAReplayWritesNothing: no transaction id and no WAL. What the server logs on its own account comes and goes, so one
// quiet run of a few must show nothing.
func TestAReplayWritesNothing(t *testing.T) {
	s, effect, _ := effects(t)
	require.NoError(t, s.Settle(t.Context(), held(t, s, claimOf("lease")), completed()))
	transact := func() {
		_, err := s.Transact(t.Context(), claimOf("tx"), 0, answering(effect, "k"))
		require.NoError(t, err)
	}
	transact()
	for name, replay := range map[string]func(){"lease": func() { claim(t, s, claimOf("lease")) }, "transactional": transact} {
		replay()
		written := func() (wal, xids int64) {
			require.NoError(t, s.DB.QueryRow(t.Context(), `SELECT pg_current_wal_insert_lsn() - '0/0', pg_snapshot_xmax(pg_current_snapshot())::text::bigint`).Scan(&wal, &xids))
			return wal, xids
		}
		quiet := false
		for range 20 {
			wal, xids := written()
			for range 50 {
				replay()
			}
			walAfter, xidsAfter := written()
			if quiet = walAfter == wal && xidsAfter == xids; quiet {
				break
			}
		}
		require.True(t, quiet, name)
	}
}
