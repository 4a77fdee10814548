package semel_test

import (
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/semel-go/semel"
)

// clients.md 22: a response or an error, never both and never neither; and every error is an *Error.
func TestNeverAResponseTogetherWithAnError(t *testing.T) {
	cancelled, cancel := context.WithCancel(context.Background())
	cancel()
	for name, script := range map[string]step{
		"success": reply(201, "x"), "lost": lose, "cut": cut(201), "cut error": cut(500), "500": reply(500, "x"), "409": problem(409, "in_progress"),
		"422": problem(422, "key_reused"), "redirect": redirect(307, "://"), "stream": reply(200, "data: 1", "Content-Type", "text/event-stream"),
	} {
		for _, dialect := range []semel.Dialect{{}, semel.None} {
			for _, ctx := range []context.Context{context.Background(), cancelled} {
				t.Run(name, func(t *testing.T) {
					inBubble(t, func(t *testing.T, s *site) {
						tr := s.transport(func(tr *semel.Transport) { tr.Dialect = dialect })
						for way, do := range map[string]func(*http.Request) (*http.Response, error){
							"RoundTrip": tr.RoundTrip,
							"Do":        (&semel.Client{HTTP: tr.Client()}).Do,
							"Check":     func(r *http.Request) (*http.Response, error) { return semel.Check(tr.Client().Do(r)) },
						} {
							resp, err := do(s.post(t, "x").WithContext(ctx))
							require.NotEqual(t, resp == nil, err == nil, way)
							if err != nil {
								failed(t, err)
								continue
							}
							io.Copy(io.Discard, resp.Body)
							resp.Body.Close()
						}
					}, script)
				})
			}
		}
	}
}

// The same judgement, whichever client made the request and whatever stands around the Transport.
func TestDoAndCheckAgree(t *testing.T) {
	wrap := func(rt http.RoundTripper) http.RoundTripper {
		return base(func(r *http.Request) (*http.Response, error) {
			resp, err := rt.RoundTrip(r.Clone(r.Context()))
			if resp != nil {
				copied := *resp
				resp = &copied
			}
			return resp, err
		})
	}
	for _, e := range endings {
		t.Run(e.rule, func(t *testing.T) {
			inBubble(t, func(t *testing.T, s *site) {
				var got []semel.Outcome
				var texts []string
				for _, do := range []func(c *http.Client, r *http.Request) (*http.Response, error){
					func(c *http.Client, r *http.Request) (*http.Response, error) {
						return (&semel.Client{HTTP: c}).Do(r)
					},
					func(c *http.Client, r *http.Request) (*http.Response, error) { return semel.Check(c.Do(r)) },
					func(c *http.Client, r *http.Request) (*http.Response, error) {
						c.Transport = wrap(wrap(c.Transport))
						return semel.Check(c.Do(r))
					},
					func(c *http.Client, r *http.Request) (*http.Response, error) {
						c.Timeout = 24 * time.Hour
						return (&semel.Client{HTTP: c}).Do(r)
					},
				} {
					s.then(e.reply)
					c := s.transport(func(tr *semel.Transport) {
						tr.Dialect, tr.NewKey = e.dialect, mint("k")
						tr.Retry.Backoff = short
					}).Client()
					c.CheckRedirect = func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }
					resp, err := do(c, s.post(t, "x"))
					if err == nil {
						read(t, resp)
						texts = append(texts, "answer")
					} else {
						texts = append(texts, err.Error())
					}
					got = append(got, outcomeOf(resp, err))
				}
				for i := range got {
					require.Equal(t, got[0], got[i])
					require.Equal(t, texts[0], texts[i])
				}
			})
		})
	}
}

func TestAResponseWithoutAReportSaysNothing(t *testing.T) {
	s := newSite(t, reply(201, "hello"))
	plain := &http.Client{Transport: s.base}
	resp, err := semel.Check(plain.Do(s.post(t, "x")))
	require.Nil(t, resp)
	require.ErrorIs(t, err, unknown)
	require.Equal(t, "hello", read(t, failed(t, err).Response), "it is not lost either")

	_, err = (&semel.Client{HTTP: plain}).Do(s.post(t, "x"))
	require.ErrorIs(t, err, unknown, "no Transport of ours is in the chain")

	_, err = semel.Check(nil, nil)
	require.ErrorIs(t, err, unknown)

	_, err = semel.Check(&http.Response{StatusCode: 200}, nil)
	require.ErrorIs(t, err, unknown)
	require.NotNil(t, failed(t, err).Response.Body)

	_, err = semel.Check(httptest.NewRecorder().Result(), io.ErrUnexpectedEOF)
	require.ErrorIs(t, err, unknown)
	require.ErrorIs(t, err, io.ErrUnexpectedEOF)

	_, err = (&semel.Client{HTTP: &http.Client{Transport: dialing(io.ErrClosedPipe)}}).Do(s.post(t, "x"))
	require.ErrorIs(t, err, unknown, "nobody saw whether it was sent")
	require.ErrorIs(t, err, io.ErrClosedPipe)
}

// http.Client rebuilds an error as text when its Timeout ends.
func TestTheClientsTimeoutTellsTheTruth(t *testing.T) {
	for _, c := range []struct {
		rule   string
		script []step
		edit   func(*semel.Transport)
		want   semel.Outcome
		done   int // attempts that came back
	}{
		{"in flight", []step{silence}, nil, unknown, 1},
		{"in flight after 429", []step{reply(429, ""), silence}, nil, unknown, 2},
		{"after a cut 201", []step{cut(201), silence}, nil, applied, 2},
		{"while dialling", nil, func(tr *semel.Transport) {
			tr.Base = &http.Transport{DialContext: (&slowNet{}).dial}
		}, notSent, 1},
	} {
		for _, own := range []bool{false, true} {
			t.Run(c.rule, func(t *testing.T) {
				inBubble(t, func(t *testing.T, s *site) {
					client := s.client(func(tr *semel.Transport) {
						tr.Retry.AttemptTimeout, tr.Retry.Backoff = time.Hour, short
						if c.edit != nil {
							c.edit(tr)
						}
					})
					client.HTTP.Timeout = 10 * time.Second
					ctx := context.Background()
					if own {
						ctx = semel.NewOperation("").Context(ctx)
					}
					_, err := client.Do(s.post(t, "x").WithContext(ctx))
					e := failed(t, err)
					require.Equal(t, c.want, e.Outcome, "%v", err)
					require.ErrorIs(t, err, context.DeadlineExceeded)
					require.True(t, e.Timeout())
					require.Equal(t, c.done, e.Attempts)
					require.NotEmpty(t, e.Key())
					time.Sleep(time.Hour)
				}, c.script...)
			})
		}
	}
}

// slowNet takes a minute to find that there is nobody.
type slowNet struct{}

func (*slowNet) dial(context.Context, string, string) (net.Conn, error) {
	time.Sleep(time.Minute)
	return nil, io.ErrClosedPipe
}

// clients.md 46: what comes with an error is in memory, and its connection is free.
func TestTheReplyInAnErrorIsInMemory(t *testing.T) {
	inBubble(t, func(t *testing.T, s *site) {
		s.base.MaxConnsPerHost = 1
		c := s.client(func(tr *semel.Transport) { tr.Retry.MaxAttempts, tr.MaxReply = 1, -1 })
		var kept []*http.Response
		for range 3 {
			_, err := c.Do(s.post(t, "x"))
			require.ErrorIs(t, err, unknown)
			kept = append(kept, failed(t, err).Response) // and nobody closes it
		}
		s.server.CloseClientConnections()
		for _, resp := range kept {
			require.Equal(t, "busy", read(t, resp))
		}
	}, reply(503, "busy"))
}

func TestAReplyInAnErrorThatDoesNotEndSaysSo(t *testing.T) {
	inBubble(t, func(t *testing.T, s *site) {
		begun := time.Now()
		_, err := s.client(func(tr *semel.Transport) { tr.Retry.MaxAttempts = 1 }).Do(s.post(t, "x"))
		require.Less(t, time.Since(begun), time.Second)
		resp := failed(t, err).Response
		b, err := io.ReadAll(resp.Body)
		require.Equal(t, "begun", string(b))
		require.ErrorIs(t, err, io.ErrUnexpectedEOF, "what is missing is not passed over in silence")
	}, func(w http.ResponseWriter, r *http.Request) {
		w.WriteHeader(503)
		io.WriteString(w, "begun")
		http.NewResponseController(w).Flush()
		silence(w, r)
	})
}

func TestIdleConnectionsAreClosedOnlyWhenTheCallerSaysSo(t *testing.T) {
	closed := 0
	tr := &semel.Transport{Base: &closing{base: func(r *http.Request) (*http.Response, error) { return nil, errors.New("no") }, closed: &closed}}
	tr.Retry.Backoff = atOnce
	_, err := tr.RoundTrip(newRequest(t, "POST", "http://api.test/", "x"))
	require.Error(t, err)
	require.Zero(t, closed)
	tr.Client().CloseIdleConnections()
	require.Equal(t, 1, closed)
	(&semel.Transport{Base: base(nil)}).CloseIdleConnections()
}

type closing struct {
	base
	closed *int
}

func (c *closing) CloseIdleConnections() { *c.closed++ }
