package semel

import (
	"context"
	"net/http"
)

// A call is one RoundTrip: the attempts that it makes for an operation, and the report of how it ended.
type call struct {
	t   *Transport
	req *http.Request // the caller's
	op  *Operation
	key string // "" for an operation without one

	own     Operation // op, if nobody brought one
	body    *body     // nil without one
	repeats *repeats  // nil until the first attempt was not enough

	keyed    bool // its API takes the key
	explicit bool // the caller made the operation, so every repeat is compared with what it is bound to
	safe     bool // its method has no effect
	hop      bool // a redirect changed the method: what follows is not the operation itself
	brought  bool // the request came with the key's header
	fresh    bool // the key's life began with this call, which has not sent anything yet

	attempts, sends int32

	stop     error // why there was no further attempt; nil after an answer
	verdict  Verdict
	resource string

	// The first attempt and its request, in the same allocation.
	first   try
	request http.Request
}

// An effect is a call whose method has an effect, in one allocation with its body and what watches its first attempt.
type effect struct {
	call
	flight flight
	body   body
}

func (t *Transport) newCall(req *http.Request) *call {
	var c *call
	if safe := safeMethod(methodOf(req)); safe && !hasBody(req) {
		c = &call{safe: true}
	} else {
		e := new(effect)
		c, e.safe = &e.call, safe
		if !safe {
			c.first.flight = &e.flight
		}
		if hasBody(req) {
			c.body = &e.body
			c.body.begin(t, req)
		}
	}
	c.t, c.req = t, req
	c.own.private = true
	return c
}

type callKey struct{}

// callIn returns the call whose attempt this context belongs to, or nil.
func callIn(ctx context.Context) *call {
	c, _ := ctx.Value(callKey{}).(*call)
	return c
}

// run makes attempts until one is the last.
func (c *call) run() (*http.Response, error) {
	c.underWay(1)
	y, err := c.attempt()
	return c.goOn(y, err)
}

// goOn is run from the end of the first attempt.
func (c *call) goOn(y *try, err error) (*http.Response, error) {
	if err == nil {
		y, err = c.repeat(y)
	}
	c.underWay(-1)
	if err != nil {
		return c.fail(c.after(err))
	}
	return c.finish(y)
}

// attempt makes the next attempt, or returns why there is none.
func (c *call) attempt() (*try, error) {
	y, err := c.prepare()
	if err == nil {
		y.send()
	}
	return y, err
}

// repeat makes further attempts for as long as the one before was not the last, and returns that, or why there was no
// further one.
func (c *call) repeat(y *try) (*try, error) {
	for {
		c.judge(y)
		wait, again := c.again(y)
		c.observe(y, wait, !again)
		if !again {
			return y, nil
		}
		c.repeats.keep(y)
		y.discard()
		err := c.wait(wait)
		if err != nil {
			c.unpay(y)
			return nil, err
		}
		if y, err = c.attempt(); err != nil {
			return nil, err
		}
	}
}

// finish returns what the last attempt brought.
func (c *call) finish(y *try) (*http.Response, error) {
	if y.err != nil {
		err := y.failure()
		y.discard()
		return c.fail(err)
	}
	c.body.finish(y.streaming)
	c.own.private = false
	y.resp.Request = y.req
	return y.resp, nil
}

// fail ends the call without a reply.
func (c *call) fail(why error) (*http.Response, error) {
	c.body.finish(false)
	e := c.report()
	e.Err = hide(join(c.stop, why))
	c.own.private = false
	c.op.lock()
	defer c.op.unlock()
	c.op.failed = e
	return nil, e
}

// after adds what the attempt before failed with.
func (c *call) after(err error) error {
	if c.repeats == nil {
		return err
	}
	return join(err, c.repeats.last())
}

// report is how the call ended, as an error.
func (c *call) report() *Error {
	c.op.show()
	c.op.lock()
	defer c.op.unlock()
	return &Error{
		Operation:  c.op,
		Outcome:    c.op.history.outcome(),
		Verdict:    c.verdict,
		Attempts:   int(c.attempts),
		Sends:      int(c.sends),
		ResourceID: c.resource,
		Err:        c.stop,
	}
}
