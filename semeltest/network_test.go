package semeltest_test

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/semel-go/semel/semeltest"
)

// A site is a server behind a dial function, and how often its handler ran.
type site struct {
	server *httptest.Server
	client *http.Client
	runs   int
	body   int64
	bodyOK bool
	close  func()
}

func (s *site) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	s.runs++
	var err error
	s.body, err = io.Copy(io.Discard, r.Body)
	if s.bodyOK = err == nil; !s.bodyOK {
		panic(http.ErrAbortHandler)
	}
	w.Header().Set("Content-Length", "10")
	w.WriteHeader(http.StatusCreated)
	io.WriteString(w, "0123456789")
}

type dial func(ctx context.Context, network, address string) (net.Conn, error)

// newSite serves on l; the client dials by d.
func newSite(l net.Listener, d dial, tlsOn, h2 bool) *site {
	s := new(site)
	s.server = &httptest.Server{Listener: l, EnableHTTP2: h2, Config: &http.Server{Handler: s}}
	tr := &http.Transport{DialContext: d, ForceAttemptHTTP2: h2}
	if tlsOn {
		s.server.StartTLS()
		pool := x509.NewCertPool()
		pool.AddCert(s.server.Certificate())
		tr.TLSClientConfig = &tls.Config{RootCAs: pool, ServerName: "example.com"}
	} else {
		s.server.Start()
	}
	s.client = &http.Client{Transport: tr}
	s.close = func() { tr.CloseIdleConnections(); s.server.Close() }
	return s
}

// post sends a body of so many bytes and returns what the caller sees.
func (s *site) post(ctx context.Context, size int) (proto, body string, err error) {
	req, err := http.NewRequestWithContext(ctx, "POST", s.server.URL, strings.NewReader(strings.Repeat("b", size)))
	if err != nil {
		return "", "", err
	}
	resp, err := s.client.Do(req)
	if err != nil {
		return "", "", err
	}
	defer resp.Body.Close()
	b, err := io.ReadAll(resp.Body)
	return resp.Proto + " " + resp.Status, string(b), err
}

func TestNetworkCarriesHTTP(t *testing.T) {
	for name, c := range map[string]struct {
		tls, h2 bool
		proto   string
	}{
		"HTTP/1.1": {proto: "HTTP/1.1"},
		"TLS":      {tls: true, proto: "HTTP/1.1"},
		"HTTP/2":   {tls: true, h2: true, proto: "HTTP/2.0"},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				n := &semeltest.Network{Plan: func(int) semeltest.Plan { return semeltest.Plan{Latency: time.Second} }}
				s := newSite(n.Listen(), n.DialContext, c.tls, c.h2)
				defer s.close()
				for range 2 {
					proto, body, err := s.post(t.Context(), 1<<20)
					require.NoError(t, err)
					require.Equal(t, c.proto+" 201 Created", proto)
					require.Equal(t, "0123456789", body)
					require.EqualValues(t, 1<<20, s.body)
				}
				require.Equal(t, 2, s.runs)
			})
			t.Run("through the proxy", func(t *testing.T) {
				var p semeltest.Proxy
				l, err := net.Listen("tcp", "127.0.0.1:0")
				require.NoError(t, err)
				s := newSite(l, p.DialContext, c.tls, c.h2)
				defer p.Close()
				defer s.close()
				proto, body, err := s.post(t.Context(), 1<<20)
				require.NoError(t, err)
				require.Equal(t, c.proto+" 201 Created", proto)
				require.Equal(t, "0123456789", body)
			})
		})
	}
}

// wire is what net/http makes of one fault on a fresh connection: the rows of faults.md 1.2 that need nothing but a plan.
var wire = []struct {
	name string // faults.md row and rule
	plan semeltest.Plan
	size int
	is   error  // the caller's error matches it; nil: none
	says string // or contains this
	runs int    // of the handler
	read bool   // the handler got the body whole
	want string // the reply's status
}{
	{name: "1: a refused dial sends nothing", plan: semeltest.Plan{DialError: syscall.ECONNREFUSED}, is: syscall.ECONNREFUSED},
	{name: "2: a dial that hangs ends with the context", plan: semeltest.Plan{DialDelay: time.Hour}, is: context.DeadlineExceeded},
	{name: "5: a reset inside the request head runs no handler", plan: semeltest.Plan{Up: semeltest.Cut{After: 40, End: semeltest.RST}}, is: syscall.ECONNRESET},
	{name: "6: a FIN inside the request head is answered with 400", plan: semeltest.Plan{Up: semeltest.Cut{After: 40, End: semeltest.FIN}}, want: "400 Bad Request"},
	{name: "7: a reset inside the body runs the handler with half of it", plan: semeltest.Plan{Up: semeltest.Cut{After: 5000, End: semeltest.RST}}, size: 100_000, says: "sim", runs: 1},
	{name: "7: a FIN inside the body runs the handler with half of it", plan: semeltest.Plan{Up: semeltest.Cut{After: 5000, End: semeltest.FIN}}, size: 100_000, says: "sim", runs: 1},
	{name: "8: a body that stalls ends with the context", plan: semeltest.Plan{Up: semeltest.Cut{After: 5000, End: semeltest.Stall}}, size: 1_000_000, is: context.DeadlineExceeded, runs: 1},
	{name: "14: a swallowed request ends with the context", plan: semeltest.Plan{Up: semeltest.Cut{End: semeltest.Stall}}, is: context.DeadlineExceeded},
	{name: "32: a lost reply is an end of file", plan: semeltest.Plan{Down: semeltest.Cut{End: semeltest.FIN}}, is: io.EOF, runs: 1, read: true},
	{name: "32: a lost reply is a reset", plan: semeltest.Plan{Down: semeltest.Cut{End: semeltest.RST}}, is: syscall.ECONNRESET, runs: 1, read: true},
	{name: "32: a lost reply is a silence", plan: semeltest.Plan{Down: semeltest.Cut{End: semeltest.Stall}}, is: context.DeadlineExceeded, runs: 1, read: true},
	{name: "33: a cut status line matches no error", plan: semeltest.Plan{Down: semeltest.Cut{After: 10, End: semeltest.FIN}}, says: "malformed HTTP status code", runs: 1, read: true},
	{name: "34: a body cut by FIN has an unexpected end", plan: semeltest.Plan{Down: semeltest.Cut{After: 125, End: semeltest.FIN}}, is: io.ErrUnexpectedEOF, runs: 1, read: true},
	{name: "34: a body cut by RST is reset", plan: semeltest.Plan{Down: semeltest.Cut{After: 125, End: semeltest.RST}}, is: syscall.ECONNRESET, runs: 1, read: true},
	{name: "34: a body that stalls ends with the context", plan: semeltest.Plan{Down: semeltest.Cut{After: 125, End: semeltest.Stall}}, is: context.DeadlineExceeded, runs: 1, read: true},
}

func TestWireFaultsLookLikeThose(t *testing.T) {
	for _, c := range wire {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				n := &semeltest.Network{Plan: func(int) semeltest.Plan { return c.plan }}
				s := newSite(n.Listen(), n.DialContext, false, false)
				defer s.close()
				ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
				defer cancel()
				status, _, err := s.post(ctx, max(c.size, 3))
				switch {
				case c.says != "":
					require.ErrorContains(t, err, c.says)
				case c.is != nil:
					require.ErrorIs(t, err, c.is)
				default:
					require.NoError(t, err)
					require.Contains(t, status, c.want)
				}
				synctest.Wait()
				n.Reset() // frees a handler that still reads
				synctest.Wait()
				require.Equal(t, c.runs, s.runs)
				require.Equal(t, c.read, s.bodyOK)
			})
		})
	}
}

// Kernels buffer and coalesce, so neither the handler's view is asserted here nor which error follows a part of the data.
func TestWireFaultsAreTheSameThroughTheProxy(t *testing.T) {
	for _, c := range wire {
		t.Run(c.name, func(t *testing.T) {
			p := &semeltest.Proxy{Plan: func(int) semeltest.Plan { return c.plan }}
			l, err := net.Listen("tcp", "127.0.0.1:0")
			require.NoError(t, err)
			s := newSite(l, p.DialContext, false, false)
			defer s.close()
			defer s.server.CloseClientConnections()
			defer p.Close()
			patience := time.Minute
			if errors.Is(c.is, context.DeadlineExceeded) {
				patience = 50 * time.Millisecond
			}
			ctx, cancel := context.WithTimeout(t.Context(), patience)
			defer cancel()
			status, _, err := s.post(ctx, max(c.size, 3))
			if c.is == nil && c.says == "" {
				require.NoError(t, err)
				require.Contains(t, status, c.want)
				return
			}
			require.Error(t, err)
			if errors.Is(c.is, context.DeadlineExceeded) || c.plan.Down.After+c.plan.Up.After == 0 {
				require.ErrorIs(t, err, c.is)
			}
		})
	}
}

func TestResetIsTheDeathOfTheServer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var n semeltest.Network
		s := newSite(n.Listen(), n.DialContext, false, false)
		defer s.close()
		_, _, err := s.post(t.Context(), 3)
		require.NoError(t, err)
		n.Reset()
		synctest.Wait()
		_, _, err = s.post(t.Context(), 3)
		require.ErrorIs(t, err, syscall.ECONNREFUSED)
		reborn := newSite(n.Listen(), n.DialContext, false, false)
		defer reborn.close()
		_, _, err = s.post(t.Context(), 3)
		require.NoError(t, err)
		require.Equal(t, 1, reborn.runs)
	})
}

func TestProxyListensForOtherPrograms(t *testing.T) {
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { io.WriteString(w, "ok") }))
	defer s.Close()
	p := &semeltest.Proxy{Upstream: s.Listener.Addr().String(), Plan: func(conn int) semeltest.Plan {
		if conn == 1 {
			return semeltest.Plan{Down: semeltest.Cut{End: semeltest.RST}}
		}
		return semeltest.Plan{}
	}}
	defer p.Close()
	addr, err := p.Listen()
	require.NoError(t, err)
	client := &http.Client{Transport: &http.Transport{DisableKeepAlives: true}}
	_, err = client.Post("http://"+addr, "text/plain", nil)
	require.ErrorIs(t, err, syscall.ECONNRESET)
	resp, err := client.Post("http://"+addr, "text/plain", nil)
	require.NoError(t, err)
	resp.Body.Close()
}
