package semel

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"net"
	"net/http"
	"strings"
)

// A fault is how an attempt failed to bring a reply.
type fault int8

const (
	none        fault = iota
	caller            // the caller's own context ended
	local             // the request can never be sent
	certificate       // the server is not who it should be
	unsent            // no connection
	unprocessed       // the server said that it did nothing
	unanswered        // anything may have happened
	timeout           // the attempt's time ran out; anything may have happened
	cut               // the reply's body was cut short
	source            // the caller's body failed while it was read
	broken            // the base breaks its contract
)

// classify says what an error of the base means. Everything that is not known to be harmless counts as sent: a reply that
// is cut within its head, for one, comes as a parse error.
func (y *try) classify(err error) fault {
	var dial *net.OpError
	var dns *net.DNSError
	switch {
	case y.call.req.Context().Err() != nil:
		return caller
	case y.flight.late():
		if y.silent() {
			return unsent
		}
		return timeout
	case y.sourceError() != nil:
		return source
	case certificateError(err):
		return certificate
	case notProcessed(err) && y.sent() <= 1:
		return unprocessed
	case y.flight != nil && y.flight.sends.Load() > 0:
		return unanswered
	case y.call.t.standard() && unsendable(y.req):
		return local
	case y.silent():
		return unsent
	case errors.As(err, &dns), errors.As(err, &dial) && dial.Op == "dial":
		if y.flight == nil || y.flight.traced() {
			return unsent
		}
	}
	return unanswered
}

// sourceError is what the caller's body failed with.
func (y *try) sourceError() error {
	if y.flight == nil || y.flight.body == nil {
		return nil
	}
	return y.flight.body.failed()
}

func certificateError(err error) bool {
	var (
		verify    *tls.CertificateVerificationError
		authority x509.UnknownAuthorityError
		host      x509.HostnameError
		invalid   x509.CertificateInvalidError
	)
	return errors.As(err, &verify) || errors.As(err, &authority) || errors.As(err, &host) || errors.As(err, &invalid)
}

// A streamError has the fields of net/http's, which can be converted to it by errors.As.
type streamError struct {
	StreamID uint32
	Code     uint32
	Cause    error
}

func (streamError) Error() string { return "stream error" }

const refusedStream = 0x7 // RFC 9113 section 7

// notProcessed reports whether the server said that it did not process the request: a stream that it refused, or one above
// the last that a GOAWAY names (RFC 9113 sections 8.7 and 6.8). net/http wraps that as text when it has no GetBody, and in
// the same words a PROTOCOL_ERROR, which proves nothing.
func notProcessed(err error) bool {
	var stream streamError
	if errors.As(err, &stream) {
		return stream.Code == refusedStream
	}
	text := err.Error()
	return strings.Contains(text, "http2: Transport: cannot retry err [") && !strings.Contains(text, "PROTOCOL_ERROR")
}

// unsendable repeats what net/http looks at before it asks for a connection.
func unsendable(req *http.Request) bool {
	if s := req.URL.Scheme; s != "http" && s != "https" || req.URL.Host == "" || !token(methodOf(req)) {
		return true
	}
	for name, lines := range req.Header {
		if !token(name) {
			return true
		}
		for _, line := range lines {
			if strings.ContainsFunc(line, func(r rune) bool { return r < ' ' && r != '\t' || r == 0x7f }) {
				return true
			}
		}
	}
	return false
}

// token is RFC 9110 section 5.6.2.
func token(s string) bool {
	for i := range len(s) {
		c := s[i]
		if !('a' <= c && c <= 'z' || 'A' <= c && c <= 'Z' || '0' <= c && c <= '9' || strings.IndexByte("!#$%&'*+-.^_`|~", c) >= 0) {
			return false
		}
	}
	return s != ""
}

// answered is a status that was not the end of it.
type answered int

func (a answered) Error() string { return fmt.Sprintf("the server answered %d", int(a)) }

// failure says what went wrong, for the error of the operation.
func (y *try) failure() error {
	switch {
	case y.err == nil:
		return answered(y.resp.StatusCode)
	case y.fault == cut:
		return join(fmt.Errorf("the reply with status %d was cut short: %w", y.resp.StatusCode, y.err), ended(y.call.req.Context()))
	case y.flight.late() && (y.fault == timeout || y.fault == unsent):
		return fmt.Errorf("%w (%v): %w", errAttemptTimeout, y.flight.timeout, context.DeadlineExceeded)
	case y.fault == caller:
		return y.call.after(ended(y.call.req.Context()))
	case y.fault == source:
		return fmt.Errorf("reading the request body: %w", y.sourceError())
	}
	return mute(y.err)
}

// ended is why a context ended: its error, and the cause if that says more.
func ended(ctx context.Context) error {
	err, cause := ctx.Err(), context.Cause(ctx)
	if err == nil || errors.Is(cause, err) {
		return cause
	}
	return join(err, cause)
}
