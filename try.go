package semel

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"strconv"
	"time"
)

// A try is one attempt: one call of the base. It is the context of its request.
type try struct {
	context.Context

	call   *call
	req    *http.Request
	flight *flight

	resp      *http.Response
	err       error // with resp: its body was cut
	verdict   Verdict
	n         int32 // from 1
	fault     fault
	bare      bool // Running only by its status and the circumstances
	told      bool // the server says not to repeat
	streaming bool // the caller reads the reply while it arrives
	elapsed   time.Duration
}

// Value hides the caller's operation: a request that the base makes on the way, such as one for a token, is another
// operation.
func (y *try) Value(key any) any {
	switch key {
	case callKey{}:
		return y.call
	case innermostKey{}:
		return y
	case operationKey{}, undertakingKey{}:
		return nil
	case traceKey:
		if f := y.flight; f != nil {
			return f.hooks(y.Context)
		}
	}
	return y.Context.Value(key)
}

// A next is an attempt after the first, in one allocation with its request and what watches it.
type next struct {
	try
	flight  flight
	request http.Request
}

// prepare makes the next attempt.
func (c *call) prepare() (*try, error) {
	ctx := c.req.Context()
	if ctx.Err() != nil {
		return nil, ended(ctx)
	}
	if c.keyed && !c.fresh && c.expired(0) {
		return nil, ErrLifetime
	}
	if c.explicit && c.attempts > 0 {
		if err := c.op.check(c.req); err != nil {
			return nil, err
		}
	}
	c.fresh = false
	y, request := &c.first, &c.request
	if c.attempts > 0 {
		n := &c.repeats.second
		if c.attempts > 1 {
			n = new(next)
		}
		y, request = &n.try, &n.request
		y.flight = &n.flight
	}
	y.call, y.n, y.Context = c, c.attempts+1, ctx
	c.watch(y)
	*request = *c.req.WithContext(y) // a copy within an allocation that there is anyway
	y.req = request
	if err := c.address(y); err != nil {
		y.flight.land()
		return nil, err
	}
	return y, nil
}

// watch gives the attempt a flight if anything must be watched.
func (c *call) watch(y *try) {
	timeout := c.t.Retry.attemptTimeout(c.keyed)
	if deadline, ok := y.Deadline(); ok && timeout > 0 && time.Until(deadline) <= timeout {
		timeout = 0 // the caller's own time runs out first
	}
	if c.safe && !c.keyed && timeout == 0 && c.body == nil {
		y.flight = nil
		return
	}
	if y.flight == nil {
		y.flight = new(flight)
	}
	f := y.flight
	f.timeout, f.limit = timeout, 0
	switch {
	case !c.t.standard():
	case c.keyed: // an attempt is one send
		f.limit = 1
	default: // without a key net/http repeats only what was not processed, but over HTTP/2 without end (golang/go#52459)
		f.limit = 3
	}
	frozen := c.repeats.frozenConn()
	if timeout > 0 || c.body == nil || !c.keyed || frozen != nil {
		if y.Context.Done() == nil {
			f.ends = true
		} else {
			y.Context, f.cancel = context.WithCancelCause(y.Context)
		}
	}
	f.frozen = frozen
}

// address gives the attempt's request its headers and body.
func (c *call) address(y *try) error {
	r, d := y.req, &c.t.Dialect
	var dropped string // the caller's own key, where none may go out
	if c.hop && !d.InBody {
		dropped, _ = findKey(r.Header, d.header(), d.Quoted)
	}
	number := c.t.Retry.AttemptHeader
	tempting := !c.safe && tempts(r.Header)
	if c.keyed || dropped != "" || number != "" || tempting || r.Header == nil {
		if r.Header = maps.Clone(r.Header); r.Header == nil {
			r.Header = make(http.Header, 1)
		}
	}
	if dropped != "" {
		dropKey(r.Header, d.header())
	}
	if number != "" {
		r.Header[http.CanonicalHeaderKey(number)] = []string{strconv.Itoa(int(y.n))}
	}
	if tempting && c.t.standard() {
		for _, name := range replayable {
			if lines, ok := r.Header[name]; ok {
				delete(r.Header, name)
				r.Header[unreplayable(name)] = lines
			}
		}
	}
	if c.keyed {
		c.addKey(y)
	}
	if c.repeats.frozenConn() != nil {
		r.Close = true
	}
	if c.body == nil {
		return nil
	}
	if c.keyed || !c.t.repeatsUnwritten(r) {
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
		c.op.lock()
		begun := c.op.begun
		c.op.unlock()
		d.Extra(h, begun)
	}
	if d.InBody {
		return
	}
	name := d.canonical()
	if c.brought || d.Extra != nil {
		dropKey(h, name)
	}
	if c.body == nil && c.t.standard() {
		name = unreplayable(name)
	}
	y.flight.header[0] = quoteKey(c.key, d.Quoted)
	h[name] = y.flight.header[:]
	if !c.t.standard() {
		y.flight.counts = d
	}
}

// replayable are the headers that net/http takes for a promise that it may repeat the request.
var replayable = [...]string{"Idempotency-Key", "X-Idempotency-Key"}

func tempts(h http.Header) bool {
	for _, name := range replayable {
		if _, ok := h[name]; ok {
			return true
		}
	}
	return false
}

// repeatsUnwritten reports whether net/http, given GetBody and no key, repeats no more than what it could not write: so it is
// over HTTP/1. Over HTTP/2 it also repeats what the server ended with a PROTOCOL_ERROR, which may have been processed.
func (t *Transport) repeatsUnwritten(req *http.Request) bool {
	std, ok := t.base().(*http.Transport)
	return ok && req.URL.Scheme == "http" && (std.Protocols == nil || !std.Protocols.UnencryptedHTTP2())
}

// unreplayable spells a header so that net/http does not take it for a promise that it may repeat the request.
func unreplayable(name string) string {
	switch name {
	case "Idempotency-Key":
		return "idempotency-key"
	case "X-Idempotency-Key":
		return "x-idempotency-key"
	}
	return name
}

// send makes the attempt.
func (y *try) send() {
	c := y.call
	y.depart()
	if c.t.Observe != nil {
		start := time.Now()
		defer func() { y.elapsed = time.Since(start) }()
	}
	y.arrive(c.t.base().RoundTrip(y.req))
}

// depart records that the attempt is under way, and starts its time.
func (y *try) depart() {
	c := y.call
	if !c.hop {
		c.op.lock()
		c.op.history.inFlight++
		c.op.unlock()
	}
	y.flight.depart()
}

// arrive takes what the base returned, and classifies a failure.
func (y *try) arrive(resp *http.Response, err error) {
	y.resp, y.err = resp, err
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
		y.err = y.flight.because(y.err)
		if y.fault == none {
			y.fault = y.classify(y.err)
		}
		y.flight.land()
	}
}

// sent returns how many requests went out for the attempt.
func (y *try) sent() int {
	if f := y.flight; f != nil {
		if n := int(f.sends.Load()); n > 0 {
			return n
		}
	}
	if y.err != nil && (y.fault == unsent || y.fault == local || y.fault == certificate || y.fault == caller && y.silent()) {
		return 0
	}
	return 1
}

// resentUnprocessed reports whether net/http sent the request more than once for reasons that leave no doubt about the sends
// before the last: over HTTP/1, and without a header that allows more, it only repeats what it could not write.
func (y *try) resentUnprocessed() bool {
	return !y.call.keyed && y.call.t.standard() && y.resp != nil && y.resp.ProtoMajor == 1
}

// silent reports whether the request provably got no connection: net/http's own transport looked for one and found none.
func (y *try) silent() bool {
	f := y.flight
	return f != nil && f.sought.Load() && f.sends.Load() == 0 && y.call.t.standard()
}
