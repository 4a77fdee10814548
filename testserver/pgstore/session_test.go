package pgstore

import (
	"context"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"

	"github.com/semel-go/semel/testserver"
)

// asks returns work that reads a setting.
func asks(setting string, value *string) work {
	return func(ctx context.Context) (*testserver.Answer, error) {
		return answer(), Tx(ctx).QueryRow(ctx, `SELECT current_setting($1)`, setting).Scan(value)
	}
}

func TestATransactionThatSleepsIsEnded(t *testing.T) {
	const timeout = 200 * time.Millisecond
	for name, mode := range map[string]func(*Store, *pgxpoolConfig){
		"prepared": modes["prepared"], "pooler": modes["pooler"], "simple protocol": modes["simple protocol"],
		"beside a timeout of the pool's own": func(_ *Store, c *pgxpoolConfig) {
			c.ConnConfig.RuntimeParams["idle_in_transaction_session_timeout"] = "1h"
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s, effect, count := effects(t, mode, func(s *Store, _ *pgxpoolConfig) { s.IdleTimeout = timeout })
			other := open(t, s.DB.Config().ConnString())
			asleep := make(chan struct{})
			done := make(chan error, 1)
			go func() {
				_, err := s.Transact(t.Context(), claimOf("k"), 0, func(ctx context.Context) (*testserver.Answer, error) {
					err := effect(ctx, "k")
					close(asleep)
					time.Sleep(10 * timeout)
					return answer(), err
				})
				done <- err
			}()
			soon(t, asleep)
			r, err := other.Transact(t.Context(), claimOf("k"), time.Minute, answering(effect, "k"))
			require.NoError(t, err)
			require.Equal(t, testserver.Completed, r.State)
			require.Error(t, soon(t, done))
			require.Equal(t, 1, count("k"))
		})
	}
}

func TestTheSessionsOwnSettingsAreTheWorks(t *testing.T) {
	for name, mode := range modes {
		t.Run(name, func(t *testing.T) {
			s := empty(t, mode, func(_ *Store, c *pgxpoolConfig) {
				c.MaxConns = 1
				c.AfterConnect = func(ctx context.Context, conn *pgx.Conn) error {
					_, err := conn.Exec(ctx, `SET lock_timeout = '1111ms'`, pgx.QueryExecModeSimpleProtocol)
					return err
				}
			})
			value := func(key string) (v string) {
				t.Helper()
				_, err := s.Transact(t.Context(), claimOf(key), 0, asks("lock_timeout", &v))
				require.NoError(t, err)
				return v
			}
			require.Equal(t, "1111ms", value("by AfterConnect"))
			for _, later := range []string{"2222ms", "3333ms"} {
				_, err := s.DB.Exec(t.Context(), `SET lock_timeout = '`+later+`'`, pgx.QueryExecModeSimpleProtocol)
				require.NoError(t, err)
				require.Equal(t, later, value(later))
			}
			c := claimOf("lapsed")
			held(t, s, c)
			age(t, s, c.ID, 2*time.Minute)
			require.Equal(t, "3333ms", value("lapsed"))
		})
	}
}

func TestARefusalThatAnotherAnswerHasOvertakenIsThatAnswer(t *testing.T) {
	s, effect, count := effects(t)
	other := open(t, s.DB.Config().ConnString())
	lose := func(ctx context.Context) { // what a refusal does at its end
		_, err := Tx(ctx).Exec(ctx, `ROLLBACK; BEGIN`, pgx.QueryExecModeSimpleProtocol)
		require.NoError(t, err)
	}
	refusal := &testserver.Answer{Status: 402}
	t.Run("when it is there", func(t *testing.T) {
		r, err := s.Transact(t.Context(), claimOf("there"), 0, func(ctx context.Context) (*testserver.Answer, error) {
			lose(ctx)
			_, err := other.Transact(ctx, claimOf("there"), 0, answering(effect, "there"))
			require.NoError(t, err)
			return refusal, nil
		})
		require.NoError(t, err)
		require.Equal(t, answer(), r.Answer)
		require.Equal(t, 1, count("there"))
	})
	t.Run("and busy while it is not", func(t *testing.T) {
		end, done := make(chan struct{}), make(chan error, 1)
		release := sync.OnceFunc(func() { close(end) })
		defer release()
		_, err := s.Transact(t.Context(), claimOf("busy"), 0, func(ctx context.Context) (*testserver.Answer, error) {
			lose(ctx)
			running := make(chan struct{})
			go func() {
				_, err := other.Transact(t.Context(), claimOf("busy"), 0, func(ctx context.Context) (*testserver.Answer, error) {
					close(running)
					<-end
					return answer(), effect(ctx, "busy")
				})
				done <- err
			}()
			soon(t, running)
			return refusal, nil
		})
		require.ErrorIs(t, err, testserver.ErrBusy)
		release()
		require.NoError(t, soon(t, done))
		require.Equal(t, 1, count("busy"))
	})
	t.Run("in doubt when the work has committed by itself", func(t *testing.T) {
		_, err := s.Transact(t.Context(), claimOf("committed"), 0, func(ctx context.Context) (*testserver.Answer, error) {
			require.NoError(t, effect(ctx, "committed"))
			_, err := Tx(ctx).Exec(ctx, `COMMIT; BEGIN`, pgx.QueryExecModeSimpleProtocol)
			return refusal, err
		})
		require.ErrorIs(t, err, testserver.ErrInDoubt)
		require.Equal(t, 1, count("committed"))
	})
}
