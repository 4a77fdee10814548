package semel_test

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"slices"
	"strconv"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/semel-go/semel"
	"github.com/semel-go/semel/semeltest"
)

// clients.md 49 and dialects.md 11: what has no key is repeated only if that can do no harm.
func TestWhatIsRepeatedWithAndWithoutAKey(t *testing.T) {
	refused := func(tr *semel.Transport) { tr.Base = dialing(syscall.ECONNREFUSED) }
	for _, c := range []struct {
		rule    string
		fault   step
		edit    func(*semel.Transport)
		keyed   int // requests, or attempts if none arrives
		post    int // without a key
		put     int
		outcome semel.Outcome // without a key
	}{
		{"a lost reply", lose, nil, 4, 1, 4, unknown},
		{"refused", nil, refused, 4, 4, 4, notSent},
		{"429", reply(429, ""), nil, 4, 4, 4, notApplied},
		{"425", reply(425, ""), nil, 4, 4, 4, notApplied},
		{"408", reply(408, ""), nil, 4, 1, 4, unknown},
		{"500", reply(500, ""), nil, 4, 1, 4, unknown},
		{"503", reply(503, ""), nil, 4, 1, 4, unknown},
		{"504", reply(504, ""), nil, 4, 1, 4, unknown},
		{"501", reply(501, ""), nil, 1, 1, 1, unknown},
		{"400", reply(400, ""), nil, 1, 1, 1, notApplied},
		{"a cut 201", cut(201), nil, 4, 1, 1, applied},
	} {
		for kind, want := range map[string]int{"keyed": c.keyed, "POST": c.post, "PATCH": c.post, "PUT": c.put, "DELETE": c.put, "GET": c.put} {
			t.Run(c.rule+"/"+kind, func(t *testing.T) {
				inBubble(t, func(t *testing.T, s *site) {
					attempts, last := 0, semel.Attempt{}
					method := kind
					c1 := s.client(func(tr *semel.Transport) {
						tr.Observe = func(a semel.Attempt) { attempts++; last = a }
						if kind == "keyed" {
							method = "POST"
						} else {
							tr.Dialect = semel.None
						}
						if c.edit != nil {
							c.edit(tr)
						}
					})
					resp, err := c1.Do(newRequest(t, method, s.URL, "x"))
					if err == nil {
						io.Copy(io.Discard, resp.Body)
						resp.Body.Close()
					}
					require.Equal(t, want, attempts)
					if c.edit == nil {
						require.Len(t, s.requests(), want)
					} else {
						require.Empty(t, s.requests())
					}
					if kind == "POST" || kind == "PATCH" {
						require.Equal(t, c.outcome, last.Outcome)
						for _, k := range s.keys(t) {
							require.Empty(t, k)
						}
					}
				}, c.fault)
			})
		}
	}
}

// clients.md 53: a reply that was cut short is not asked for again without a key, and its status is not lost.
func TestACutReplyWithoutAKeySaysWhatItsStatusWas(t *testing.T) {
	inBubble(t, func(t *testing.T, s *site) {
		resp, err := s.client(func(tr *semel.Transport) { tr.Dialect = semel.None }).Do(s.post(t, "x"))
		require.NoError(t, err)
		require.Equal(t, 201, resp.StatusCode)
		b, err := io.ReadAll(resp.Body)
		require.Equal(t, "0123456789", string(b))
		require.ErrorIs(t, err, io.ErrUnexpectedEOF)
		require.ErrorContains(t, err, "201")
		resp.Body.Close()
		require.Len(t, s.requests(), 1)
	}, cut(201))
}

// clients.md 54
func TestACutGetIsFetchedAgainIfRepliesAreRead(t *testing.T) {
	inBubble(t, func(t *testing.T, s *site) {
		resp, err := s.client(func(tr *semel.Transport) { tr.MaxReply = 1 << 20 }).Do(newRequest(t, "GET", s.URL, ""))
		require.NoError(t, err)
		require.Equal(t, "whole", read(t, resp))

		s.then(cut(200))
		resp, err = s.client().Do(newRequest(t, "GET", s.URL, ""))
		require.NoError(t, err)
		_, err = io.ReadAll(resp.Body)
		require.ErrorIs(t, err, io.ErrUnexpectedEOF, "never silent")
		resp.Body.Close()
	}, cut(200), reply(200, "whole"))
}

// clients.md 52: who the server is does not change by asking again.
func TestACertificateErrorIsFinal(t *testing.T) {
	srv := httptest.NewTLSServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { t.Error("it was sent") }))
	srv.Config.ErrorLog = quiet
	t.Cleanup(srv.Close)
	pool := x509.NewCertPool()
	pool.AddCert(srv.Certificate())
	for rule, config := range map[string]*tls.Config{
		"unknown authority": {},
		"wrong host":        {RootCAs: pool, ServerName: "other.test"},
		"expired":           {RootCAs: pool, ServerName: "example.com", Time: func() time.Time { return time.Now().AddDate(200, 0, 0) }},
	} {
		for _, dialect := range []semel.Dialect{{}, semel.None} {
			t.Run(rule, func(t *testing.T) {
				dials := 0
				tr := &semel.Transport{Dialect: dialect, Retry: semel.Policy{Backoff: atOnce}, Base: &http.Transport{
					TLSClientConfig: config,
					DialContext: func(ctx context.Context, n, a string) (net.Conn, error) {
						dials++
						return new(net.Dialer).DialContext(ctx, n, a)
					},
				}}
				_, err := tr.RoundTrip(newRequest(t, "POST", srv.URL, "x"))
				require.ErrorIs(t, err, notSent)
				var certificate *tls.CertificateVerificationError
				require.ErrorAs(t, err, &certificate)
				require.Equal(t, 1, dials)
			})
		}
	}
}

// faults.md 1 and 2: a failure before there is a connection is not a send.
func TestFailuresBeforeAConnectionAreNotSends(t *testing.T) {
	for rule, b := range map[string]*http.Transport{
		"refused":      dialing(syscall.ECONNREFUSED),
		"no such host": dialing(&net.DNSError{Err: "no such host", Name: "api.test", IsNotFound: true}),
		"the dial hangs": {DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
			time.Sleep(time.Minute) // net/http lets it go on
			return nil, io.ErrNoProgress
		}},
		"the handshake is cut": {DialTLSContext: func(context.Context, string, string) (net.Conn, error) { return nil, io.ErrUnexpectedEOF }},
		"the proxy refuses":    {Proxy: http.ProxyURL(newRequest(t, "GET", "http://proxy.test:1", "").URL), DialContext: dialing(syscall.ECONNREFUSED).DialContext},
	} {
		for _, dialect := range []semel.Dialect{{}, semel.None} {
			t.Run(rule, func(t *testing.T) {
				inBubble(t, func(t *testing.T, s *site) {
					tr := &semel.Transport{Base: b, Dialect: dialect, Retry: semel.Policy{AttemptTimeout: 10 * time.Second, Budget: &semel.Budget{Max: 100}}}
					_, err := tr.RoundTrip(newRequest(t, "POST", "https://api.test/", "x"))
					require.ErrorIs(t, err, notSent)
					require.Equal(t, 4, failed(t, err).Attempts)
					require.Zero(t, failed(t, err).Sends)
					time.Sleep(time.Hour)
				})
			})
		}
	}
}

// faults.md 5, 6, 33, 36: what breaks on the way is repeated under the same key, wherever it breaks.
func TestAConnectionMayBreakAnywhere(t *testing.T) {
	for _, end := range []semeltest.End{semeltest.FIN, semeltest.RST, semeltest.Stall} {
		for _, at := range []int64{0, 1, 10, 40, 60, 100, 150} {
			for _, direction := range []string{"up", "down"} {
				t.Run(direction+" "+strconv.Itoa(int(at))+" "+end.String(), func(t *testing.T) {
					inBubble(t, func(t *testing.T, s *site) {
						s.net.Plan = func(conn int) (p semeltest.Plan) {
							switch {
							case conn > 2:
							case direction == "up":
								p.Up = semeltest.Cut{After: at, End: end}
							default:
								p.Down = semeltest.Cut{After: at, End: end}
							}
							return p
						}
						resp, err := s.client(func(tr *semel.Transport) { tr.Retry.AttemptTimeout = time.Second }).Do(s.post(t, "0123456789"))
						require.LessOrEqual(t, len(slices.Compact(s.keys(t))), 1)
						switch {
						case err != nil:
							require.ErrorIs(t, err, unknown)
						case resp.StatusCode == 400: // net/http's own, to a head that a FIN cut short
							require.Empty(t, s.requests())
							read(t, resp)
						default:
							require.Equal(t, "done", read(t, resp))
						}
					}, reply(201, "done"))
				})
			}
		}
	}
}

// clients.md 55 and 57: the budget gives back what came, says why, and comes back with answers.
func TestAnEmptyBudgetStopsRetriesAndNothingElse(t *testing.T) {
	inBubble(t, func(t *testing.T, s *site) {
		tr := s.transport(func(tr *semel.Transport) { tr.Retry.MaxAttempts = 3 })
		var stopped int
		for range 20 {
			resp, err := tr.RoundTrip(s.post(t, "x"))
			require.NoError(t, err)
			require.Equal(t, 503, resp.StatusCode)
			require.Equal(t, "down", read(t, resp))
			if _, err := semel.Check(resp, nil); errors.Is(err, semel.ErrBudget) {
				stopped++
			}
		}
		require.Less(t, len(s.requests()), 20+12, "first attempts are never blocked, retries mostly")
		require.Greater(t, stopped, 10)

		other := newRequest(t, "POST", "http://other.test/", "x")
		before := len(s.requests())
		resp, err := tr.RoundTrip(other)
		require.NoError(t, err)
		read(t, resp)
		require.Equal(t, before+3, len(s.requests()), "another host has its own budget")

		s.then(reply(201, ""))
		for range 1000 {
			resp, err := tr.RoundTrip(s.post(t, "x"))
			require.NoError(t, err)
			read(t, resp)
		}
		s.then(reply(503, ""), reply(201, ""))
		resp, err = tr.RoundTrip(s.post(t, "x"))
		require.NoError(t, err)
		require.Equal(t, 201, resp.StatusCode, "a thousand answers fill it again")
		read(t, resp)
	}, reply(503, "down"))
}

// clients.md 59
func TestTheAttemptsNumberGoesOutIfAsked(t *testing.T) {
	for _, header := range []string{"", "X-Attempt"} {
		inBubble(t, func(t *testing.T, s *site) {
			resp, err := s.client(func(tr *semel.Transport) { tr.Retry.AttemptHeader = header }).Do(s.post(t, "x"))
			require.NoError(t, err)
			read(t, resp)
			for i, a := range s.requests() {
				if header == "" {
					require.Empty(t, a.Header.Get("X-Attempt"))
				} else {
					require.Equal(t, []string{strconv.Itoa(i + 1)}, a.Header.Values("X-Attempt"))
				}
			}
		}, lose, reply(503, ""), reply(201, ""))
	}
}
