package semel_test

import (
	"context"
	"crypto/tls"
	"io"
	"net/http"
	"net/http/httptrace"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/semel-go/semel"
)

// clients.md 20, dialects.md 9 and 10, faults.md 13: of eight warm connections that all drop, net/http would try each.
func TestAnAttemptIsOneSend(t *testing.T) {
	for _, c := range []struct {
		rule    string
		body    string
		dialect semel.Dialect
		header  string // that the caller sets by himself
		keyed   bool
	}{
		{"keyed, with a body", "x", semel.Dialect{}, "", true},
		{"keyed, without one", "", semel.Dialect{}, "", true},
		{"keyed by X-Idempotency-Key, with a body", "x", semel.Dialect{Header: "X-Idempotency-Key"}, "", true},
		{"keyed by X-Idempotency-Key, without one", "", semel.Dialect{Header: "X-Idempotency-Key"}, "", true},
		{"keyed by another header, without a body", "", semel.Dialect{Header: "PayPal-Request-Id"}, "", true},
		{"keyed, and the other header besides", "", semel.Dialect{}, "X-Idempotency-Key", true},
		{"the caller's own header", "", semel.Dialect{}, "Idempotency-Key", true},
		{"without keys, but with their header", "", semel.None, "Idempotency-Key", false},
		{"without keys, but with the other one", "x", semel.None, "X-Idempotency-Key", false},
		{"without keys", "x", semel.None, "", false},
	} {
		t.Run(c.rule, func(t *testing.T) {
			s := newSite(t)
			s.warm(t, 8)
			s.then(lose)
			req := s.post(t, c.body)
			if c.header != "" {
				req.Header.Set(c.header, "k")
			}
			_, err := s.client(func(tr *semel.Transport) { tr.Dialect, tr.Retry.MaxAttempts = c.dialect, 3 }).Do(req)
			require.ErrorIs(t, err, unknown)
			e := failed(t, err)
			require.Equal(t, len(s.requests()), e.Sends, "what is reported is what the server saw")
			want := 3
			if !c.keyed {
				want = 1
			}
			require.Len(t, s.requests(), want)
			require.Equal(t, want, e.Attempts)
			if c.header != "" {
				require.Equal(t, []string{"k"}, s.requests()[0].Header.Values(c.header), "it still goes out")
			}
		})
	}
}

// One stale connection costs no wait: the first retry after a loss on a reused connection is immediate.
func TestAStaleConnectionCostsNoWait(t *testing.T) {
	inBubble(t, func(t *testing.T, s *site) {
		tr := s.transport(func(tr *semel.Transport) {
			tr.Retry.Backoff = func() semel.Backoff { return constant(7 * time.Second) }
		})
		for range 2 {
			resp, err := tr.RoundTrip(s.post(t, "x"))
			require.NoError(t, err)
			read(t, resp)
		}
		all := s.requests()
		require.Len(t, all, 4)
		require.Zero(t, all[2].at.Sub(all[1].at))
		require.Equal(t, 7*time.Second, all[3].at.Sub(all[2].at), "and only the first one")
	}, reply(201, ""), lose, lose, reply(201, ""))
}

// What a wrapped base sends more than once is counted, reported and paid for.
func TestHiddenRepeatsAreCountedAndPaidFor(t *testing.T) {
	s := newSite(t)
	s.warm(t, 8)
	s.then(lose)
	budget := &semel.Budget{Max: 100}
	wrapped := base(func(r *http.Request) (*http.Response, error) { return s.base.RoundTrip(r) })
	tr := &semel.Transport{Base: wrapped, Retry: semel.Policy{MaxAttempts: 2, Budget: budget, Backoff: atOnce}}
	_, err := tr.RoundTrip(s.post(t, ""))
	require.ErrorIs(t, err, unknown)
	require.Equal(t, len(s.requests()), failed(t, err).Sends)
	require.Greater(t, failed(t, err).Sends, failed(t, err).Attempts)
}

func TestTheCallersTraceStillRuns(t *testing.T) {
	for _, method := range []string{"GET", "POST"} {
		s := newSite(t, reply(200, ""))
		var got, get, wrote, fields atomic.Int32
		ctx := httptrace.WithClientTrace(context.Background(), &httptrace.ClientTrace{
			GetConn:          func(string) { get.Add(1) },
			GotConn:          func(httptrace.GotConnInfo) { got.Add(1) },
			WroteRequest:     func(httptrace.WroteRequestInfo) { wrote.Add(1) },
			WroteHeaderField: func(string, []string) { fields.Add(1) },
			TLSHandshakeDone: func(tls.ConnectionState, error) { t.Error("there is no TLS") },
		})
		for _, b := range []http.RoundTripper{s.base, base(s.base.RoundTrip)} {
			tr := &semel.Transport{Base: b}
			resp, err := tr.RoundTrip(newRequest(t, method, s.URL, "").WithContext(ctx))
			require.NoError(t, err)
			read(t, resp)
		}
		require.EqualValues(t, 2, got.Load())
		require.EqualValues(t, 2, get.Load())
		require.EqualValues(t, 2, wrote.Load())
		require.Positive(t, fields.Load())
	}
}

func TestTheCallersRequestIsNeverModified(t *testing.T) {
	inBubble(t, func(t *testing.T, s *site) {
		req := s.post(t, "x")
		req.Header["x-odd"] = []string{"1"}
		req.Header["X-Idempotency-Key"] = []string{"2"}
		before, header, body, get := *req, req.Header.Clone(), req.Body, req.GetBody
		for _, tr := range []*semel.Transport{s.transport(), s.transport(func(tr *semel.Transport) {
			tr.Retry.AttemptHeader, tr.Dialect.Extra = "X-Attempt", func(h http.Header, _ time.Time) { h.Set("X-Extra", "1") }
		}), s.transport(func(tr *semel.Transport) { tr.Dialect = semel.None })} {
			s.then(reply(503, ""), reply(201, ""))
			resp, err := tr.RoundTrip(req)
			require.NoError(t, err)
			io.Copy(io.Discard, resp.Body)
			resp.Body.Close()
			require.Equal(t, header, req.Header)
			require.Equal(t, before.URL, req.URL)
			require.Equal(t, before.ContentLength, req.ContentLength)
			require.True(t, body == req.Body)
			require.NotNil(t, get)
			require.NotNil(t, req.GetBody)
			require.False(t, req.Close)
		}
	})
}
