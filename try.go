package semel

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"net"
	"net/http"
	"net/http/httptrace"
	"strconv"
	"sync"
	"sync/atomic"
	"time"
)

// A try is one attempt: one call of the base, with what may be cancelled and counted about it. It is the context of its
// request.
type try struct {
	context.Context

	call *call
	n    int
	req  *http.Request
	body *bodyReader // what the base reads, if it is captured

	cancel   context.CancelCauseFunc // nil if the attempt needs none
	timer    *time.Timer             // nil without an attempt timeout
	timeout  time.Duration
	ended    atomic.Bool // the attempt is over: its timer means nothing
	timedOut atomic.Bool

	trace   httptrace.ClientTrace
	conns   atomic.Int32 // connections that the request was given, one for each send
	asked   atomic.Bool  // whoever sends it looks at the trace
	connMu  sync.Mutex
	reused  net.Conn  // the last of them, if it had been used before; guarded by connMu
	headers [1]string // the value of the key's header, in the same allocation

	resp      *http.Response
	err       error // with resp: its body was cut
	fault     fault
	verdict   Verdict
	bare      bool // Running only by its status and the circumstances
	told      bool // the server says not to repeat
	streaming bool // the caller reads the reply while it arrives
	passed    passed
	started   time.Time
}

// Value hides the caller's operation: a request that the base makes on the way, such as one for a token, is another
// operation.
func (y *try) Value(key any) any {
	switch key {
	case callKey{}:
		return y.call
	case operationKey{}:
		return nil
	case traceKey:
		if y.call.safe {
			break
		}
		y.asked.Store(true)
		return &y.trace
	}
	return y.Context.Value(key)
}

var (
	errAttemptTimeout = errors.New("the attempt made no progress within its timeout")
	errFrozen         = errors.New("the connection had not answered before")
	errResend         = errors.New("net/http was about to send the request again by itself")
)

// prepare makes the next attempt.
func (c *call) prepare() (*try, error) {
	ctx := c.req.Context()
	if ctx.Err() != nil {
		return nil, ended(ctx)
	}
	if c.keyed && c.expired(0) {
		return nil, ErrLifetime
	}
	if c.explicit && c.attempts > 0 {
		if err := c.op.check(c.req); err != nil {
			return nil, err
		}
	}
	y := &c.first
	if c.attempts > 0 {
		y = new(try)
	}
	y.call, y.n, y.Context = c, c.attempts+1, ctx
	y.timeout = c.t.Retry.attemptTimeout(c.keyed)
	if y.timeout > 0 || !c.safe && (c.body == nil || !c.keyed) {
		y.Context, y.cancel = context.WithCancelCause(ctx)
	}
	if !c.safe {
		y.watch()
	}
	y.req = c.req.WithContext(y)
	if err := c.address(y); err != nil {
		y.end()
		return nil, err
	}
	return y, nil
}

// address gives the attempt's request its headers and body.
func (c *call) address(y *try) error {
	r, d := y.req, &c.t.Dialect
	var dropped string // the caller's own key, where none may go out
	if c.hop && !d.InBody {
		dropped, _ = findKey(r.Header, d.header(), d.Quoted)
	}
	number := c.t.Retry.AttemptHeader
	if c.keyed || dropped != "" || number != "" {
		if r.Header = maps.Clone(r.Header); r.Header == nil {
			r.Header = make(http.Header, 1)
		}
	}
	if dropped != "" {
		dropKey(r.Header, d.header())
	}
	if number != "" {
		r.Header[http.CanonicalHeaderKey(number)] = []string{strconv.Itoa(y.n)}
	}
	if c.keyed {
		c.addKey(y)
	}
	if c.frozen != nil {
		r.Close = true
	}
	if c.body == nil {
		return nil
	}
	if c.keyed || r.GetBody != nil && c.body.get == nil {
		r.GetBody = nil // so that net/http cannot send it a second time by itself
	}
	var err error
	r.Body, err = c.body.open(y)
	return err
}

// addKey writes the key's header, once. net/http repeats a request without a body by itself if it finds the key under its
// canonical name; under another the same bytes go out and it does not.
func (c *call) addKey(y *try) {
	h, d := y.req.Header, &c.t.Dialect
	if d.Extra != nil {
		c.op.mu.Lock()
		begun := c.op.begun
		c.op.mu.Unlock()
		d.Extra(h, begun)
	}
	if d.InBody {
		return
	}
	name := d.header()
	dropKey(h, name)
	y.headers[0] = quoteKey(c.key, d.Quoted)
	if c.body == nil && c.t.standard() {
		h[unreplayable(name)] = y.headers[:]
		return
	}
	h[http.CanonicalHeaderKey(name)] = y.headers[:]
}

// unreplayable spells a header so that net/http does not take it for a promise that it may repeat the request.
func unreplayable(name string) string {
	switch http.CanonicalHeaderKey(name) {
	case "Idempotency-Key":
		return "idempotency-key"
	case "X-Idempotency-Key":
		return "x-idempotency-key"
	}
	return http.CanonicalHeaderKey(name)
}

// send makes the attempt and classifies its failure.
func (y *try) send() {
	c := y.call
	if !c.hop {
		c.op.mu.Lock()
		c.op.history.inFlight++
		c.op.mu.Unlock()
	}
	if c.t.Observe != nil {
		y.started = time.Now()
	}
	if y.timeout > 0 {
		y.timer = time.AfterFunc(y.timeout, y.expire)
	}
	y.resp, y.err = c.t.base().RoundTrip(y.req)
	switch {
	case y.resp == nil && y.err == nil:
		y.err, y.fault = errors.New("Transport.Base returned neither a response nor an error"), broken
	case y.resp != nil && y.err != nil:
		closeReply(y.resp)
		y.resp, y.err, y.fault = nil, fmt.Errorf("Transport.Base returned a response together with an error: %w", y.err), broken
	case y.resp != nil && y.resp.Body == nil:
		y.resp.Body = http.NoBody
	}
	if y.resp != nil {
		y.receive()
	}
	if y.err != nil {
		if y.fault == none {
			y.fault = y.classify(y.err)
		}
		y.end()
	}
}

// progress starts the attempt's time anew.
func (y *try) progress() {
	if y.timer != nil && !y.ended.Load() {
		y.timer.Reset(y.timeout)
	}
}

func (y *try) expire() {
	if !y.ended.Load() {
		y.timedOut.Store(true)
		y.cancel(errAttemptTimeout)
	}
}

// stopTimer ends the attempt's time, and reports whether it had run out.
func (y *try) stopTimer() (expired bool) {
	y.ended.Store(true)
	if y.timer != nil {
		y.timer.Stop()
	}
	return y.timedOut.Load()
}

// end releases what the attempt holds. The base must be done with it, body included.
func (y *try) end() {
	y.stopTimer()
	if y.cancel != nil {
		y.cancel(nil)
	}
}
