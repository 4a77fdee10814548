package semel_test

import (
	"context"
	"errors"
	"net/http"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/semel-go/semel"
)

func TestAKeyIsNotUsedWhenTheServerMayHaveForgottenIt(t *testing.T) {
	for _, c := range []struct {
		rule     string
		lifetime time.Duration
		timeout  time.Duration
		after    time.Duration
		allowed  bool
	}{
		{"within 24 hours less 60s and a minute", 0, 0, 24*time.Hour - 2*time.Minute - time.Second, true},
		{"beyond", 0, 0, 24*time.Hour - 2*time.Minute + time.Second, false},
		{"a longer attempt needs more", 0, time.Hour, 23 * time.Hour, false},
		{"the dialect's lifetime", time.Hour, 0, 58*time.Minute - time.Second, true},
		{"beyond the dialect's lifetime", time.Hour, 0, 58*time.Minute + time.Second, false},
		{"for ever", semel.Forever, 0, 10000 * time.Hour, true},
	} {
		for _, restored := range []bool{false, true} {
			t.Run(c.rule, func(t *testing.T) {
				inBubble(t, func(t *testing.T, s *site) {
					op := semel.NewOperation("")
					require.NoError(t, op.Bind(s.post(t, "x")))
					time.Sleep(c.after)
					if restored {
						op = restart(t, op)
					}
					resp, err := s.client(func(tr *semel.Transport) {
						tr.Dialect.Lifetime, tr.Retry.AttemptTimeout = c.lifetime, c.timeout
					}).Do(s.post(t, "x").WithContext(op.Context(context.Background())))
					if c.allowed {
						require.NoError(t, err)
						read(t, resp)
						return
					}
					require.ErrorIs(t, err, semel.ErrLifetime)
					require.Empty(t, s.requests())
					require.Equal(t, restored, errors.Is(err, unknown), "fresh and unsent, or perhaps sent before the restart")
				}, reply(201, ""))
			})
		}
	}
}

func TestRetriesStopBeforeTheKeyIsForgotten(t *testing.T) {
	inBubble(t, func(t *testing.T, s *site) {
		begun := time.Now()
		_, err := s.client(func(tr *semel.Transport) {
			tr.Dialect.Lifetime, tr.Retry.MaxPolls = time.Hour, 1000
			tr.Retry.MaxWait = 10 * time.Minute
		}).Do(s.post(t, "x"))
		require.ErrorIs(t, err, semel.ErrLifetime)
		require.ErrorIs(t, err, unknown)
		require.LessOrEqual(t, time.Since(begun), 58*time.Minute)
		require.Greater(t, len(s.requests()), 5)
	}, problem(409, "in_progress", "Retry-After", "540"))
}

func TestTheTimeOfTheFirstSendStaysTheSame(t *testing.T) {
	inBubble(t, func(t *testing.T, s *site) {
		c := s.client(func(tr *semel.Transport) {
			tr.Dialect.Extra = func(h http.Header, begun time.Time) {
				h.Set("Repeatability-First-Sent", begun.UTC().Format(http.TimeFormat))
			}
		})
		op := semel.NewOperation("")
		require.NoError(t, op.Bind(s.post(t, "x")))
		want := time.Now().UTC().Format(http.TimeFormat)
		time.Sleep(time.Minute)
		_, err := c.Do(s.post(t, "x").WithContext(op.Context(context.Background())))
		require.ErrorIs(t, err, unknown)
		op = restart(t, op)
		time.Sleep(time.Hour)
		_, err = c.Do(s.post(t, "x").WithContext(op.Context(context.Background())))
		require.ErrorIs(t, err, unknown)
		require.Len(t, s.requests(), 8)
		for _, a := range s.requests() {
			require.Equal(t, []string{want}, a.Header.Values("Repeatability-First-Sent"))
		}
	}, lose)
}
