package semel_test

import (
	"context"
	"net/http"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/semel-go/semel"
)

// What an error hands out is enough to ask again, in this process or the next, also for an operation that nobody named.
func TestAnErrorsOperationAsksAgainUnderTheSameKey(t *testing.T) {
	for name, do := range map[string]func(*site, *semel.Client) func(*testing.T, context.Context) error{
		"from Client.Do": func(s *site, c *semel.Client) func(*testing.T, context.Context) error {
			return func(t *testing.T, ctx context.Context) error {
				resp, err := c.Do(s.post(t, "x").WithContext(ctx))
				if err == nil {
					read(t, resp)
				}
				return err
			}
		},
		"from Check": func(s *site, c *semel.Client) func(*testing.T, context.Context) error {
			return func(t *testing.T, ctx context.Context) error {
				resp, err := semel.Check(c.HTTP.Do(s.post(t, "x").WithContext(ctx)))
				if err == nil {
					read(t, resp)
				}
				return err
			}
		},
	} {
		for _, again := range []string{"at once", "after a restart"} {
			for _, lost := range []step{lose, reply(500, "")} {
				t.Run(name+"/"+again, func(t *testing.T) {
					inBubble(t, func(t *testing.T, s *site) {
						try := do(s, s.client())
						err := try(t, context.Background())
						require.ErrorIs(t, err, unknown)
						op, key := failed(t, err).Operation, s.keys(t)[0]
						if again == "after a restart" {
							op = restart(t, op)
						}
						s.then(reply(201, ""))
						require.NoError(t, try(t, op.Context(context.Background())))
						require.Equal(t, []string{key}, s.keys(t))
						require.Equal(t, applied, op.Outcome())
					}, lost)
				})
			}
		}
	}
}

// An outer layer that sends the same request again is still the same operation.
func TestARetryLayerAboveDoesNotMakeASecondOperation(t *testing.T) {
	for _, body := range []string{"x", ""} {
		inBubble(t, func(t *testing.T, s *site) {
			inner := s.transport(func(tr *semel.Transport) { tr.Retry.MaxAttempts = 1 })
			c := &semel.Client{HTTP: &http.Client{Transport: base(func(r *http.Request) (*http.Response, error) {
				for {
					again := r.Clone(r.Context())
					if r.GetBody != nil {
						again.Body, _ = r.GetBody()
					}
					if resp, err := inner.RoundTrip(again); err == nil {
						return resp, nil
					}
				}
			})}}
			resp, err := c.Do(s.post(t, body))
			require.NoError(t, err)
			read(t, resp)
			keys := s.keys(t)
			require.Equal(t, []string{keys[0], keys[0]}, keys)
		}, lose, reply(201, ""))
	}
}

func TestTheKeyThatWentOutIsTheOneReported(t *testing.T) {
	inBubble(t, func(t *testing.T, s *site) {
		c := s.client(func(tr *semel.Transport) { tr.Retry.AttemptTimeout = time.Hour })
		c.HTTP.Timeout = time.Minute
		op := semel.NewOperation("")
		req := s.post(t, "x").WithContext(op.Context(context.Background()))
		req.Header.Set("Idempotency-Key", "head")
		_, err := c.Do(req)
		require.ErrorIs(t, err, unknown)
		require.Equal(t, "head", failed(t, err).Key())
	}, silence)
}
