package semeltest

import (
	"context"
	"crypto/tls"
	"net/http"
	"net/url"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/semel-go/semel/testserver"
)

// A Server is a server under test: a handler in this process, or a live one. Handler or URL, and Request must be set.
type Server struct {
	Handler http.Handler // in this process, in simulated time
	URL     string       // or live: scheme and host that requests go to, in real time
	Sockets bool         // serve Handler on loopback connections and in real time, for one that uses the network

	// Request returns a fresh request for operation n, without a key. Different numbers are different operations, each of
	// which the server must accept. Its body must be repeatable (GetBody), as those of http.NewRequest are.
	Request func(n int) *http.Request
	// Effects, if not nil, returns how often operation n has taken effect. Without it the server is judged by its replies.
	Effects func(n int) int
	// Total, if not nil, returns a quantity that no operation may change, such as the sum of all balances.
	Total func() int64
	// As, if not nil, makes a request that of another principal.
	As func(r *http.Request, principal int)
	// Points, if not nil, makes the server visit this fault at its points, as the guard of package testserver does:
	//
	//	Points: func(f testserver.Fault) { guard.Fault = f }
	Points func(testserver.Fault)
	// Restart, if not nil, kills the server and starts it again, and returns its handler if it has one.
	Restart func() http.Handler

	Rules     Rules
	Lease     time.Duration // after which a dead owner's key can be had again, if there are leases
	Retention time.Duration // that answers are kept for at least; if 0, that is not tested
	TLS       *tls.Config   // of the client, for live servers
	HTTP2     bool          // speak HTTP/2 to Handler
	Dir       string        // where pictures of failed cases are written; if empty, that of $SEMEL_PICTURES in tests, or nowhere
}

// TestServer runs a server through every fault and judges it by its replies and by its effects. New returns a server for
// each case, fresh or the same one again. With Handler each case is a testing/synctest bubble, in which New is called:
// hours take no time, and nothing in it may use the network. Cases that need a field that is not set are left out.
func TestServer(t *testing.T, new func(t *testing.T) Server) {
	probe := new(t)
	for _, r := range serverRules() {
		if !r.fits(&probe) {
			continue
		}
		t.Run(r.name, func(t *testing.T) {
			run := func(ctx context.Context, t *testing.T, w **World) *Violation {
				s := new(t)
				s.Dir = pictures(s.Dir)
				return r.violation(ctx, &s, w)
			}
			var v *Violation
			if probe.simulated() {
				v = bubbledT(t, run)
			} else {
				var w *World
				v = run(t.Context(), t, &w)
			}
			if v != nil {
				t.Error(r.explain(v))
			}
		})
	}
}

// CheckServer does what [TestServer] does with one server for all cases, outside of tests, in real time or in the caller's
// bubble. The error joins a *[Violation] for each broken rule.
func CheckServer(ctx context.Context, s Server) error {
	return checkAll(ctx, serverRules(), func(r serverRule) *Violation {
		if !r.fits(&s) {
			return nil
		}
		var w *World
		v := r.violation(ctx, &s, &w)
		if v != nil {
			v = r.explain(v)
		}
		return v
	})
}

func (s *Server) simulated() bool { return s.Handler != nil && !s.Sockets }

// bubbledT is bubbled for cases that need the bubble's T.
func bubbledT(t *testing.T, run func(context.Context, *testing.T, **World) *Violation) (v *Violation) {
	var w *World
	defer func() {
		if p := recover(); p != nil {
			v = unended(v, w, p)
		}
	}()
	synctest.Test(t, func(t *testing.T) { v = run(t.Context(), t, &w) })
	return v
}

// A serverRule is one case of TestServer.
type serverRule struct {
	name   string
	rule   string
	faults []Fault
	http2  bool
	needs  func(*Server) bool // nil: nothing
	run    func(*serverCase)
}

func (r *serverRule) fits(s *Server) bool {
	return (r.needs == nil || r.needs(s)) && (!r.http2 || s.Handler != nil)
}

func (r *serverRule) explain(v *Violation) *Violation {
	v.Case, v.Rule = r.name, r.rule
	var names []string
	for _, f := range r.faults {
		names = append(names, f.name)
	}
	v.Fault = strings.Join(names, ", ")
	return v
}

func (r *serverRule) violation(ctx context.Context, s *Server, world **World) *Violation {
	w := &World{Handler: s.Handler, Faults: r.faults, Header: s.Rules.Header, HTTP2: r.http2 || s.HTTP2, Sockets: s.Sockets, TLS: s.TLS}
	*world = w
	if s.Points != nil {
		s.Points(w.Visit)
		defer s.Points(nil)
	}
	found := examine(ctx, func(c *check) {
		p := &serverCase{check: c, server: s, world: w}
		defer w.Close()
		if s.Total != nil {
			p.total = s.Total()
		}
		r.run(p)
		w.Close() // waits for the handlers
		p.judge()
	})
	if len(found) == 0 {
		return nil
	}
	v := &Violation{Found: strings.Join(found, "\n"), Report: w.History().String()}
	if err := draw(s.Dir, "server "+r.name, w.History()); err != nil {
		v.Found += "\n" + err.Error()
	}
	return v
}

// request returns a request of the operation, under the key.
func (p *serverCase) request(ctx context.Context, n int, key string) *http.Request {
	req := p.server.Request(n).WithContext(ctx)
	if p.server.URL != "" {
		if u, err := url.Parse(p.server.URL); err == nil {
			own := *req.URL
			own.Scheme, own.Host = u.Scheme, u.Host
			req.URL, req.Host = &own, ""
		}
	} else if req.URL.Host == "" {
		own := *req.URL
		own.Scheme, own.Host = "http", "api.test"
		req.URL = &own
	}
	if key != "" {
		p.server.Rules.setKey(req, key)
	}
	return req
}
