package semel_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptrace"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/semel-go/semel"
)

// Ways to make the client say that nothing happened when something may have, or to call something an answer that is none.

func TestARefusalAfterAProvenEffectIsNoAnswer(t *testing.T) {
	for _, status := range []int{400, 401, 403, 404, 422} {
		inBubble(t, func(t *testing.T, s *site) {
			resp, err := s.client().Do(s.post(t, "x"))
			require.Nil(t, resp, "the head of the first reply had said 201")
			require.ErrorIs(t, err, applied)
			require.Equal(t, status, failed(t, err).Response.StatusCode)
		}, cut(201), reply(status, "no"))
	}
}

func TestWhatTheResultPageSaysDoesNotUndoTheEffect(t *testing.T) {
	inBubble(t, func(t *testing.T, s *site) {
		_, err := s.client().Do(s.post(t, "x"))
		require.ErrorIs(t, err, applied)
		require.Equal(t, 404, failed(t, err).Response.StatusCode)
	}, redirect(303, "/transfers/1"), reply(404, ""))
}

func TestABaseThatSendsUnseenIsNotBelievedToBeSilent(t *testing.T) {
	sent := 0
	tr := new(http.Transport)
	tr.RegisterProtocol("http", base(func(*http.Request) (*http.Response, error) { // as HTTP/3 is plugged in
		sent++
		return nil, io.ErrUnexpectedEOF
	}))
	c := &semel.Client{HTTP: (&semel.Transport{Base: tr, Retry: semel.Policy{Backoff: atOnce}}).Client()}
	_, err := c.Do(newRequest(t, "POST", "http://api.test/", "x"))
	require.ErrorIs(t, err, unknown)
	require.Equal(t, 4, sent)
	require.Equal(t, 4, failed(t, err).Sends)
}

func TestTheOutcomeOfARequestBelowIsNotTheOperations(t *testing.T) {
	inBubble(t, func(t *testing.T, s *site) {
		tokens := &semel.Client{HTTP: (&semel.Transport{Base: dialing(syscall.ECONNREFUSED), Retry: semel.Policy{MaxAttempts: 1}}).Client()}
		n := 0
		_, err := s.client(func(tr *semel.Transport) {
			tr.Base = base(func(r *http.Request) (*http.Response, error) {
				if n++; n > 1 { // the token has run out
					if _, err := tokens.Do(newRequest(t, "POST", "http://auth.test/token", "secret").WithContext(r.Context())); err != nil {
						return nil, fmt.Errorf("no token: %w", err)
					}
				}
				return s.base.RoundTrip(r)
			})
		}).Do(s.post(t, "x"))
		require.ErrorIs(t, err, unknown, "the first attempt had been sent")
		require.NotErrorIs(t, err, notSent, "that was the token's request")
		require.ErrorIs(t, err, syscall.ECONNREFUSED)
		require.Equal(t, s.keys(t)[0], failed(t, err).Key())
	}, lose)
}

// As golang.org/x/sync/errgroup does it: what failed first is the cause for which the others are cancelled.
func TestTheOutcomeOfWhatFailedBesideIsNotTheOperations(t *testing.T) {
	inBubble(t, func(t *testing.T, s *site) {
		ctx, cancel := context.WithCancelCause(context.Background())
		go func() {
			time.Sleep(time.Second)
			dead := &semel.Client{HTTP: (&semel.Transport{Base: dialing(syscall.ECONNREFUSED), Retry: semel.Policy{MaxAttempts: 1}}).Client()}
			_, err := dead.Do(newRequest(t, "POST", "http://other.test/", "x"))
			cancel(err)
		}()
		_, err := s.client().Do(s.post(t, "x").WithContext(ctx))
		require.ErrorIs(t, err, unknown)
		require.NotErrorIs(t, err, notSent)
		require.ErrorIs(t, err, context.Canceled)
		require.ErrorIs(t, err, syscall.ECONNREFUSED, "the cause is kept")
		require.Equal(t, s.keys(t)[0], failed(t, err).Key())
	}, silence)
}

func TestARequestForATokenAboveIsNotTheOperation(t *testing.T) {
	inBubble(t, func(t *testing.T, s *site) {
		inner := s.transport(func(tr *semel.Transport) { tr.Retry.AttemptTimeout = time.Hour })
		c := &semel.Client{HTTP: &http.Client{Timeout: time.Minute, Transport: base(func(r *http.Request) (*http.Response, error) {
			resp, err := inner.RoundTrip(newRequest(t, "POST", s.URL+"/token", "").WithContext(r.Context()))
			require.NoError(t, err)
			read(t, resp)
			return inner.RoundTrip(r)
		})}}
		_, err := c.Do(s.post(t, "x"))
		require.ErrorIs(t, err, unknown)
		require.ErrorIs(t, err, context.DeadlineExceeded)
		keys := s.keys(t)
		require.NotEqual(t, keys[0], keys[1])
		require.Equal(t, keys[1], failed(t, err).Key(), "the transfer's key, not the token's")
	}, reply(200, "token"), silence)
}

// A base that repeats by itself: the answer that comes back need not be the answer to the first send.
func TestAReplyToAHiddenRepeatDoesNotSettleTheSendBeforeIt(t *testing.T) {
	for _, end := range []step{reply(400, ""), reply(409, ""), reply(429, "")} {
		inBubble(t, func(t *testing.T, s *site) {
			for _, timeout := range []time.Duration{0, semel.Forever} {
				s.then(lose, end)
				var sends int
				_, err := s.client(func(tr *semel.Transport) {
					tr.Retry.MaxAttempts, tr.Retry.AttemptTimeout = 1, timeout
					tr.Observe = func(a semel.Attempt) { sends += a.Sends }
					tr.Base = base(func(r *http.Request) (*http.Response, error) {
						first := r.Clone(context.WithoutCancel(r.Context()))
						first.Body = io.NopCloser(strings.NewReader("x"))
						resp, err := s.base.RoundTrip(first)
						if err != nil {
							second := r.Clone(context.WithoutCancel(r.Context()))
							return s.base.RoundTrip(second)
						}
						return resp, err
					})
				}).Do(s.post(t, "x"))
				require.ErrorIs(t, err, unknown)
				require.Len(t, s.requests(), sends)
			}
		})
	}
}

func TestARestoredOperationForgetsWhatTheVariableHeldBefore(t *testing.T) {
	var op semel.Operation
	require.NoError(t, json.Unmarshal([]byte(`{"key":"a","outcome":"applied"}`), &op))
	require.Equal(t, applied, op.Outcome())
	require.NoError(t, json.Unmarshal([]byte(`{"key":"b","outcome":"unknown"}`), &op))
	require.Equal(t, unknown, op.Outcome())
}

func TestAnOperationsLifeBeginsWhenItIsSaved(t *testing.T) {
	inBubble(t, func(t *testing.T, s *site) {
		op := semel.NewOperation("") // and no Bind
		saved, err := json.Marshal(op)
		require.NoError(t, err)
		ctx := op.Context(context.Background())
		_, err = s.client().Do(s.post(t, "x").WithContext(ctx))
		require.ErrorIs(t, err, unknown)
		time.Sleep(48 * time.Hour)
		again := new(semel.Operation)
		require.NoError(t, json.Unmarshal(saved, again))
		s.then(reply(201, ""))
		_, err = s.client().Do(s.post(t, "x").WithContext(again.Context(context.Background())))
		require.ErrorIs(t, err, semel.ErrLifetime, "the server has forgotten the key: to it this would be a second transfer")
		require.Empty(t, s.requests())
	}, lose)
}

func TestAReplayWhoseBodyWasCutIsStillAReplay(t *testing.T) {
	inBubble(t, func(t *testing.T, s *site) {
		var last semel.Outcome
		resp, err := s.client(func(tr *semel.Transport) { tr.Observe = func(a semel.Attempt) { last = a.Outcome } }).
			Do(s.post(t, "x").WithContext(semel.WithKey(context.Background(), "k")))
		require.NoError(t, err)
		read(t, resp)
		require.Equal(t, earlier, last)
	}, cut(201, marked...), reply(201, "", marked...))
}

func TestTwoCallsOfOneOperationDoNotCallEachOthersEffectEarlier(t *testing.T) {
	inBubble(t, func(t *testing.T, s *site) {
		op := semel.NewOperation("")
		c := s.client()
		go func() {
			resp, err := c.Do(s.post(t, "x").WithContext(op.Context(context.Background())))
			if err == nil {
				resp.Body.Close()
			}
		}()
		time.Sleep(time.Second)
		require.Equal(t, unknown, op.Outcome(), "one attempt is under way")
		resp, err := c.Do(s.post(t, "x").WithContext(op.Context(context.Background())))
		require.NoError(t, err)
		read(t, resp)
		require.Equal(t, applied, op.Outcome())
		time.Sleep(time.Minute)
	}, func(w http.ResponseWriter, r *http.Request) { time.Sleep(30 * time.Second) }, reply(201, "", marked...))
}

// A request for a token with the attempt's context is traced like the attempt itself, and is not one.
func TestATokenFetchedInsideTheBaseIsNotASend(t *testing.T) {
	for _, body := range []string{"x", ""} {
		inBubble(t, func(t *testing.T, s *site) {
			var traced int
			var attempts []semel.Attempt
			c := s.client(func(tr *semel.Transport) {
				tr.Observe = func(a semel.Attempt) { attempts = append(attempts, a) }
				tr.Base = base(func(r *http.Request) (*http.Response, error) {
					resp, err := s.base.RoundTrip(newRequest(t, "POST", s.URL+"/token", "").WithContext(r.Context()))
					require.NoError(t, err)
					read(t, resp)
					return s.base.RoundTrip(r)
				})
			})
			ctx := httptrace.WithClientTrace(context.Background(), &httptrace.ClientTrace{GotConn: func(httptrace.GotConnInfo) { traced++ }})
			resp, err := c.Do(s.post(t, body).WithContext(ctx))
			require.NoError(t, err)
			read(t, resp)
			require.Len(t, attempts, 1)
			require.Equal(t, 1, attempts[0].Sends)
			require.Equal(t, 2, traced, "the caller's own hooks still run")
			require.Empty(t, s.requests()[0].key(t))
		}, reply(200, ""))
	}
}

func TestAReplyReadAheadLosesNoByte(t *testing.T) {
	slow := func(w http.ResponseWriter, r *http.Request) {
		http.NewResponseController(w).Flush()
		for _, part := range []string{"one ", "two ", "three"} {
			time.Sleep(time.Second)
			io.WriteString(w, part)
			http.NewResponseController(w).Flush()
		}
	}
	classify := semel.Dialect{Classify: func(*http.Response, []byte) (semel.Verdict, string) { return 0, "" }}
	for _, method := range []string{"GET", "POST", "PUT"} {
		for _, edit := range []func(*semel.Transport){
			func(tr *semel.Transport) {},
			func(tr *semel.Transport) { tr.MaxReply = 1 << 10 },
			func(tr *semel.Transport) { tr.MaxReply, tr.Dialect = -1, classify },
		} {
			for _, status := range []int{200, 404} {
				inBubble(t, func(t *testing.T, s *site) {
					resp, err := s.transport(edit).RoundTrip(newRequest(t, method, s.URL, ""))
					require.NoError(t, err)
					require.Equal(t, "one two three", read(t, resp))
				}, func(w http.ResponseWriter, r *http.Request) { w.WriteHeader(status); slow(w, r) })
			}
		}
	}
}

func TestAnErrorMadeByHandCanBePrinted(t *testing.T) {
	e := &semel.Error{Outcome: notSent}
	require.Contains(t, e.Error(), "not sent")
	require.Empty(t, e.Key())
	require.ErrorIs(t, e, notSent)
}

func TestLogsTellMoreThanTheOperation(t *testing.T) {
	e := &semel.Error{Operation: semel.NewOperation("k"), Outcome: unknown, Err: errors.New("the cable is cut")}
	var text bytes.Buffer
	slog.New(slog.NewJSONHandler(&text, nil)).Error("transfer", "err", e)
	require.Contains(t, text.String(), "the cable is cut")
	require.Contains(t, text.String(), "unknown")
}
