package semel_test

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"strings"
	"sync"
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

// clients.md 50 and dialects.md 18: another request is another operation, whoever restored the key.
func TestAnOperationStandsForOneRequest(t *testing.T) {
	others := map[string]func(*testing.T, *site) *http.Request{
		"another body": func(t *testing.T, s *site) *http.Request {
			return newRequest(t, "POST", s.URL+"/transfers?a=1", "other")
		},
		"no body":       func(t *testing.T, s *site) *http.Request { return newRequest(t, "POST", s.URL+"/transfers?a=1", "") },
		"another path":  func(t *testing.T, s *site) *http.Request { return newRequest(t, "POST", s.URL+"/refunds?a=1", "x") },
		"another query": func(t *testing.T, s *site) *http.Request { return newRequest(t, "POST", s.URL+"/transfers?a=2", "x") },
		"another host": func(t *testing.T, s *site) *http.Request {
			return newRequest(t, "POST", "http://other.test/transfers?a=1", "x")
		},
		"another method": func(t *testing.T, s *site) *http.Request { return newRequest(t, "PATCH", s.URL+"/transfers?a=1", "x") },
	}
	for name, other := range others {
		for _, how := range []string{"bound", "sent", "restored", "by WithKey"} {
			t.Run(name+"/"+how, func(t *testing.T) {
				inBubble(t, func(t *testing.T, s *site) {
					one := newRequest(t, "POST", s.URL+"/transfers?a=1", "x")
					op := semel.NewOperation("")
					ctx := op.Context(context.Background())
					if how == "by WithKey" {
						ctx = semel.WithKey(context.Background(), "k")
					}
					if how == "bound" || how == "restored" {
						require.NoError(t, op.Bind(one))
					} else {
						resp, err := s.client().Do(one.WithContext(ctx))
						require.NoError(t, err)
						read(t, resp)
					}
					if how == "restored" {
						op = restart(t, op)
						ctx = op.Context(context.Background())
					}
					s.then(reply(201, ""))
					body := newSource("other")
					req := other(t, s)
					if req.Body != nil {
						body.Reader, req.Body = req.Body, body
					}
					_, err := s.client().Do(req.WithContext(ctx))
					require.ErrorIs(t, err, semel.KeyReused)
					require.ErrorContains(t, err, "POST "+s.URL+"/transfers", "both requests are named")
					require.ErrorContains(t, err, req.Method+" http://"+req.URL.Host+req.URL.Path, "both requests are named")
					require.NotContains(t, err.Error(), "a=", "a query may hold secrets")
					require.Empty(t, s.requests(), "nothing is sent")
					if req.Body != nil {
						body.closedOnce(t)
					}
					resp, err := s.client().Do(one.WithContext(ctx))
					require.NoError(t, err, "the right request still goes")
					read(t, resp)
				}, reply(201, ""))
			})
		}
	}
}

func TestASavedOperationHoldsWhatItTakesAndNoSecret(t *testing.T) {
	req := newRequest(t, "POST", "http://user:hush@api.test/transfers?token=hush", "hush")
	req.Header.Set("Authorization", "Bearer hush")
	op := semel.NewOperation("k")
	require.NoError(t, op.Bind(req))
	require.NoError(t, op.Bind(req), "a second time is the same request")
	saved, err := json.Marshal(op)
	require.NoError(t, err)
	require.NotContains(t, string(saved), "hush")
	require.Contains(t, string(saved), `"key":"k"`)
	var again semel.Operation
	require.NoError(t, json.Unmarshal(saved, &again))
	twice, err := json.Marshal(&again)
	require.NoError(t, err)
	require.JSONEq(t, string(saved), string(twice))
}

func TestBindWantsABodyThatCanBeReadAgain(t *testing.T) {
	req := newRequest(t, "POST", "http://api.test/", "")
	req.Body = io.NopCloser(strings.NewReader("x"))
	require.ErrorIs(t, semel.NewOperation("").Bind(req), semel.ErrBody)
	req.GetBody = func() (io.ReadCloser, error) { return nil, errors.New("gone") }
	require.ErrorIs(t, semel.NewOperation("").Bind(req), semel.ErrBody)
}

func TestWhatIsNoSavedOperationIsAnError(t *testing.T) {
	for _, saved := range []string{``, `{}`, `[]`, `null`, `{"key":""}`, `{"key":1}`, `{"key":"k","fingerprint":"AAAA"}`, `{"key":"k","begun":"yesterday"}`, `{"key":"k"`} {
		op := semel.NewOperation("before")
		require.Error(t, json.Unmarshal([]byte(saved), op), saved)
		require.Equal(t, "before", op.Key(), "what cannot be read changes nothing")
	}
}

func TestABodyThatChangesIsNotSentUnderTheSameKey(t *testing.T) {
	inBubble(t, func(t *testing.T, s *site) {
		n := 0
		req := s.post(t, "12345")
		req.GetBody = func() (io.ReadCloser, error) { // faults.md 10
			n++
			return io.NopCloser(strings.NewReader([]string{"12345", "12345", "54321"}[min(n, 3)-1])), nil
		}
		_, err := s.client().Do(req.WithContext(semel.NewOperation("").Context(context.Background())))
		require.ErrorIs(t, err, semel.KeyReused)
		require.ErrorIs(t, err, unknown, "the first one may have arrived")
		require.Len(t, s.requests(), 1)
	}, lose)
}

func TestOneOperationMayBeSharedByGoroutines(t *testing.T) {
	s := newSite(t, lose, reply(503, ""), reply(201, ""))
	op := semel.NewOperation("")
	c := s.client()
	var wg sync.WaitGroup
	for range 20 {
		req := s.post(t, "x").WithContext(op.Context(context.Background()))
		wg.Go(func() {
			if resp, err := c.Do(req); err == nil {
				io.Copy(io.Discard, resp.Body)
				resp.Body.Close()
			}
			op.Outcome()
			json.Marshal(op)
		})
	}
	wg.Wait()
	for _, k := range s.keys(t) {
		require.Equal(t, op.Key(), k)
	}
	require.Equal(t, applied, op.Outcome())
	saved := make(map[string]any)
	text, err := json.Marshal(op)
	require.NoError(t, err)
	require.NoError(t, json.Unmarshal(text, &saved))
	require.EqualValues(t, len(s.requests()), saved["sends"], "the history merges")
}
