package semel

import (
	"errors"
	"net/http"
)

// A Transport performs HTTP operations, each under one idempotency key. It keeps the http.RoundTripper contract: it leaves
// the request unchanged and never turns a response into an error. The zero Transport is ready and safe for concurrent use.
// It must not be copied after first use, and its fields must not change then.
//
// Over a redirect that keeps the method (307, 308) the operation goes on, and its key goes along, also to another host: the
// body does, so whoever gets the one gets the other. Where the method changes to GET (301, 302, 303) no key goes out.
type Transport struct {
	Base    http.RoundTripper                   // makes the attempts; if nil, http.DefaultTransport
	Dialect Dialect                             // how the API spells idempotency
	NewKey  func(*http.Request) (string, error) // a fresh key for an operation that brings none (a known one belongs into WithKey); if nil, UUIDv4
	Retry   Policy                              // how often and how patiently to repeat
	Observe func(Attempt)                       // if not nil, told of each attempt once it is judged; must not block

	// MaxBody limits how much of a request body without GetBody is kept for a repeat; if 0, 1 MiB; if negative, nothing.
	MaxBody int64
	// MaxReply limits the replies that are read within the attempt, so that one that is cut short is fetched again; if 0,
	// 1 MiB, for keyed operations alone; if positive, for all that may be repeated; if negative, none is read.
	MaxReply int64

	budget Budget // used if Retry.Budget is nil
}

// Client returns a client on top of t. It sets no Timeout, which would bound all attempts together: use the request's
// context for that, and Policy.AttemptTimeout for one attempt.
func (t *Transport) Client() *http.Client { return &http.Client{Transport: t} }

// CloseIdleConnections forwards the call to Base. Nothing else in this package closes idle connections.
func (t *Transport) CloseIdleConnections() {
	if c, ok := t.base().(interface{ CloseIdleConnections() }); ok {
		c.CloseIdleConnections()
	}
}

// RoundTrip performs the request's operation and returns the last reply, whole, whatever it says; [Check] tells whether it
// is the answer. Any error is an *[Error].
//
// An attempt without progress ends after Policy.AttemptTimeout: bytes of the request body start the time anew, it runs to
// the response header and, where the reply is read within the attempt, over its body. After progress it may run over by an
// eighth.
func (t *Transport) RoundTrip(req *http.Request) (*http.Response, error) {
	if err := t.check(req); err != nil {
		closeBody(req)
		return nil, refusal(new(Operation), 0, err)
	}
	above := req.Context().Value(innermostKey{})
	if l := t.light(req, above); l != nil {
		return l.roundTrip()
	}
	if above != nil && t.within(req) {
		return t.base().RoundTrip(req)
	}
	c := t.newCall(req)
	if err := c.begin(above); err != nil {
		c.own.private = false
		closeBody(req)
		return nil, err
	}
	return c.run()
}

func (t *Transport) base() http.RoundTripper {
	if t.Base != nil {
		return t.Base
	}
	return http.DefaultTransport
}

// standard reports whether the base is net/http's own, which announces every connection to httptrace and repeats some
// requests by itself.
func (t *Transport) standard() bool {
	_, ok := t.base().(*http.Transport)
	return ok
}

// within reports whether the request is an attempt of another Transport above: one of them is enough.
func (t *Transport) within(req *http.Request) bool {
	outer := callIn(req.Context())
	if outer == nil {
		return false
	}
	if d := &t.Dialect; !d.InBody {
		if key, err := findKey(req.Header, d.header(), d.Quoted); err != nil || key != outer.key {
			return false
		} else if key != "" {
			return true
		}
	}
	return req.Method == outer.req.Method && (req.URL == outer.req.URL || *req.URL == *outer.req.URL)
}

// check refuses what can never be sent.
func (t *Transport) check(req *http.Request) error {
	if err := sendable(req); err != nil {
		return err
	}
	if err := t.Dialect.valid(); err != nil {
		return err
	}
	return t.Retry.check()
}

// sendable refuses a request that no transport could send.
func sendable(req *http.Request) error {
	switch {
	case req == nil:
		return errors.New("the request is nil")
	case req.URL == nil:
		return errors.New("Request.URL is nil")
	}
	return nil
}

func closeBody(req *http.Request) {
	if req != nil && req.Body != nil {
		req.Body.Close()
	}
}
