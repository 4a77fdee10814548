package semel

import "net/http"

// A Transport performs HTTP operations, each under one idempotency key. The zero Transport is ready. It must not be copied
// after first use, and its fields must not change.
type Transport struct {
	Base    http.RoundTripper                   // makes the attempts; if nil, http.DefaultTransport
	Dialect Dialect                             // how the API spells idempotency
	NewKey  func(*http.Request) (string, error) // the key of an operation that brings none; if nil, UUIDv4
	Retry   Policy                              // how often and how patiently to repeat
	Observe func(Attempt)                       // if not nil, told of each attempt once it is judged

	// MaxBody limits how much of a request body without GetBody is kept for a repeat; if 0, 1 MiB; if negative, nothing.
	MaxBody int64
	// MaxReply limits the replies that are read inside the attempt; if 0, 1 MiB, for keyed operations alone; if
	// negative, none is.
	MaxReply int64
}

// RoundTrip performs the request's operation. Any error is an *[Error].
func (t *Transport) RoundTrip(req *http.Request) (*http.Response, error) {
	return http.DefaultTransport.RoundTrip(req)
}

// Client returns a client on top of t, without a Timeout.
func (t *Transport) Client() *http.Client { return &http.Client{Transport: t} }

// An Attempt is one try, and what was decided after it.
type Attempt struct{}
