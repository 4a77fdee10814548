package semel_test

import (
	"context"
	"errors"
	"io"
	"math"
	"net/http"
	"net/url"
	"runtime"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/semel-go/semel"
)

func TestNonsenseIsRefusedByNameBeforeAnythingIsSent(t *testing.T) {
	for _, c := range []struct {
		says string
		edit func(*semel.Transport)
	}{
		{"Policy.MaxAttempts", func(tr *semel.Transport) { tr.Retry.MaxAttempts = -1 }},
		{"Policy.MaxPolls", func(tr *semel.Transport) { tr.Retry.MaxPolls = -1 }},
		{"Policy.AttemptTimeout", func(tr *semel.Transport) { tr.Retry.AttemptTimeout = -time.Second }},
		{"Policy.MaxWait", func(tr *semel.Transport) { tr.Retry.MaxWait = -1 }},
		{"Policy.AttemptHeader", func(tr *semel.Transport) { tr.Retry.AttemptHeader = "no header" }},
		{"Budget.Max", func(tr *semel.Transport) { tr.Retry.Budget = &semel.Budget{Max: -1} }},
		{"Budget.Refill", func(tr *semel.Transport) { tr.Retry.Budget = &semel.Budget{Refill: math.NaN()} }},
		{"Dialect.Lifetime", func(tr *semel.Transport) { tr.Dialect.Lifetime = -time.Hour }},
		{"Dialect.MinWait", func(tr *semel.Transport) { tr.Dialect.MinWait = -1 }},
		{"Dialect.Header", func(tr *semel.Transport) { tr.Dialect.Header = "Idempotency Key" }},
	} {
		t.Run(c.says, func(t *testing.T) {
			inBubble(t, func(t *testing.T, s *site) {
				body := newSource("x")
				req := newRequest(t, "POST", s.URL, "")
				req.Body = body
				resp, err := s.transport(c.edit).RoundTrip(req)
				require.Nil(t, resp)
				require.ErrorContains(t, err, c.says)
				require.ErrorIs(t, err, notSent)
				require.Zero(t, failed(t, err).Attempts)
				require.Empty(t, s.requests())
				body.closedOnce(t)
			}, reply(200, ""))
		})
	}
}

func TestRequestsThatCannotBeSentAreRefusedUnsent(t *testing.T) {
	inBubble(t, func(t *testing.T, s *site) {
		for says, edit := range map[string]func(*http.Request) *http.Request{
			"request is nil": func(*http.Request) *http.Request { return nil },
			"Request.URL":    func(r *http.Request) *http.Request { r.URL = nil; return r },
			"no Host": func(r *http.Request) *http.Request {
				r.URL = &url.URL{Scheme: "http", Path: "/"}
				r.Host = ""
				return r
			},
			"scheme":       func(r *http.Request) *http.Request { r.URL = &url.URL{Scheme: "gopher", Host: "x"}; return r },
			"method":       func(r *http.Request) *http.Request { r.Method = "PO ST"; return r },
			"header":       func(r *http.Request) *http.Request { r.Header = http.Header{"Ho la": {"x"}}; return r },
			"header field": func(r *http.Request) *http.Request { r.Header = http.Header{"X-A": {"a\nb"}}; return r },
		} {
			for _, client := range []string{"Do", "RoundTrip", "Bind"} {
				body := newSource("x")
				req := newRequest(t, "POST", s.URL, "")
				req.Body = body
				req = edit(req)
				var err error
				switch client {
				case "Do":
					_, err = s.client().Do(req)
				case "RoundTrip":
					_, err = s.transport().RoundTrip(req)
				default:
					if req != nil && req.URL != nil {
						continue // Bind sends nothing
					}
					err = semel.NewOperation("").Bind(req)
				}
				require.ErrorContains(t, err, says, client)
				require.ErrorIs(t, err, notSent, "%s: %s", client, says)
				require.Zero(t, failed(t, err).Sends)
				require.LessOrEqual(t, failed(t, err).Attempts, 1, "it can never be sent: %v", err)
				if req != nil && client != "Bind" {
					body.closedOnce(t)
				}
			}
		}
		require.Empty(t, s.requests())
		require.ErrorContains(t, (*semel.Operation)(nil).Bind(s.post(t, "x")), "nil")
	}, reply(200, ""))
}

func TestANilHeaderIsAnEmptyOne(t *testing.T) {
	for _, method := range []string{"GET", "POST", "PUT"} {
		for _, dialect := range []semel.Dialect{{}, semel.None} {
			inBubble(t, func(t *testing.T, s *site) {
				req := newRequest(t, method, s.URL, "")
				req.Header = nil
				resp, err := s.transport(func(tr *semel.Transport) { tr.Dialect = dialect }).RoundTrip(req)
				require.NoError(t, err)
				read(t, resp)
				require.Nil(t, req.Header, "the caller's request is never modified")
				require.Len(t, s.requests(), 1)
			}, reply(200, ""))
		}
	}
}

func TestABaseThatBreaksItsContractIsToldAndNotRepeated(t *testing.T) {
	var closed int
	for says, b := range map[string]base{
		"neither a response nor an error": func(*http.Request) (*http.Response, error) { return nil, nil },
		"together with an error": func(r *http.Request) (*http.Response, error) {
			return &http.Response{StatusCode: 200, Body: closer(func() { closed++ }), Request: r}, io.ErrUnexpectedEOF
		},
	} {
		t.Run(says, func(t *testing.T) {
			body := newSource("x")
			req := newRequest(t, "POST", "http://api.test", "")
			req.Body = body
			calls := 0
			tr := &semel.Transport{Base: base(func(r *http.Request) (*http.Response, error) { calls++; return b(r) })}
			resp, err := tr.RoundTrip(req)
			require.Nil(t, resp)
			require.ErrorContains(t, err, "Transport.Base")
			require.ErrorContains(t, err, says)
			require.ErrorIs(t, err, unknown)
			require.Equal(t, 1, calls)
			body.closedOnce(t)
		})
	}
	require.Equal(t, 1, closed)
}

func TestABaseMayLeaveOutWhatAResponseNeedNotHave(t *testing.T) {
	tr := &semel.Transport{Base: base(func(r *http.Request) (*http.Response, error) { return &http.Response{StatusCode: 201}, nil })}
	for _, method := range []string{"GET", "POST", "HEAD"} {
		resp, err := semel.Check(tr.RoundTrip(newRequest(t, method, "http://api.test", "")))
		require.NoError(t, err)
		require.Empty(t, read(t, resp))
	}
}

type closer func()

func (c closer) Read([]byte) (int, error) { return 0, io.EOF }
func (c closer) Close() error             { c(); return nil }

func TestABodyThatCannotBeOpenedIsAnErrorAndNoPanic(t *testing.T) {
	lost := errors.New("the file is gone")
	for name, get := range map[string]func() (io.ReadCloser, error){
		"it fails":       func() (io.ReadCloser, error) { return nil, lost },
		"it is nil":      func() (io.ReadCloser, error) { return nil, nil },
		"reading fails":  func() (io.ReadCloser, error) { return io.NopCloser(errReader{lost}), nil },
		"nil after once": nilAfter(1),
	} {
		t.Run(name, func(t *testing.T) {
			for _, bound := range []bool{false, true} {
				inBubble(t, func(t *testing.T, s *site) {
					get := get
					if name == "nil after once" {
						get = nilAfter(1)
					}
					body := newSource("x")
					req := newRequest(t, "POST", s.URL, "")
					req.Body, req.ContentLength, req.GetBody = body, 1<<20, get
					if bound {
						req = req.WithContext(semel.NewOperation("").Context(context.Background()))
					}
					_, err := s.client().Do(req)
					e := failed(t, err)
					if name != "reading fails" {
						require.ErrorIs(t, err, semel.ErrBody)
					}
					require.Contains(t, []semel.Outcome{notSent, unknown}, e.Outcome)
					body.closedOnce(t)
				}, lose)
			}
		})
	}
}

type errReader struct{ err error }

func (r errReader) Read([]byte) (int, error) { return 0, r.err }

func nilAfter(n int) func() (io.ReadCloser, error) {
	return func() (io.ReadCloser, error) {
		if n--; n >= 0 {
			return io.NopCloser(strings.NewReader("x")), nil
		}
		return nil, nil
	}
}

func TestAnEmptyKeyInTheContextIsAMistake(t *testing.T) {
	inBubble(t, func(t *testing.T, s *site) {
		_, err := s.client().Do(s.post(t, "x").WithContext(semel.WithKey(context.Background(), "")))
		require.ErrorIs(t, err, semel.BadKey, "the caller meant to name an operation and did not")
		require.Empty(t, s.requests())
	}, reply(200, ""))
}

// clients.md 60
func TestTheZeroValuesServeAHundredGoroutines(t *testing.T) {
	s := newSite(t, reply(503, ""), reply(429, ""), reply(201, "ok"))
	http.DefaultTransport.(*http.Transport).MaxIdleConnsPerHost = 100
	defer func() { http.DefaultTransport.(*http.Transport).MaxIdleConnsPerHost = 0 }()
	var client semel.Client
	var transport semel.Transport
	var wg sync.WaitGroup
	errs := make(chan error, 400)
	for range 100 {
		wg.Go(func() {
			for _, do := range []func(*http.Request) (*http.Response, error){client.Do, transport.RoundTrip} {
				resp, err := do(newRequest(t, "POST", s.URL, "body"))
				if err != nil {
					errs <- err
					continue
				}
				if b, err := io.ReadAll(resp.Body); err != nil || string(b) != "ok" {
					errs <- errors.Join(err, errors.New(string(b)))
				}
				resp.Body.Close()
			}
		})
	}
	wg.Wait()
	close(errs)
	for err := range errs {
		require.NoError(t, err)
	}
	keys := make(map[string]bool)
	for _, k := range s.keys(t) {
		keys[k] = true
	}
	require.Len(t, keys, 200, "each operation has its own key")
	http.DefaultTransport.(*http.Transport).CloseIdleConnections()
}

// noGoroutineLeft waits for what net/http still has to do, and returns what is left of this module's or net/http's goroutines.
func noGoroutineLeft() string {
	var left []string
	for range 100 {
		left = nil
		buf := make([]byte, 1<<20)
		for _, g := range strings.Split(string(buf[:runtime.Stack(buf, true)]), "\n\n")[1:] {
			if strings.Contains(g, "semel-go/semel") && !strings.Contains(g, "testing.(*M)") || strings.Contains(g, "net/http.") {
				left = append(left, g)
			}
		}
		if left == nil {
			return ""
		}
		time.Sleep(50 * time.Millisecond)
	}
	return strings.Join(left, "\n\n")
}
