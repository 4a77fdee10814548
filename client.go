package semel

import (
	"context"
	"errors"
	"net/http"
)

// A Client performs operations and tells answers from everything else. The zero Client is ready and safe for concurrent
// use; it must not be copied after first use.
type Client struct {
	// HTTP makes the requests, and must have a Transport of this package in its chain; if nil, a zero one is used. Its
	// Timeout bounds all attempts together.
	HTTP *http.Client

	own Transport
}

// Do performs the request and returns the operation's answer, whatever its status; its body is the caller's to close. Any
// error is an *[Error], and then there is no response but the one within it, whose body is in memory.
func (c *Client) Do(req *http.Request) (*http.Response, error) {
	if err := sendable(req); err != nil {
		closeBody(req)
		return nil, refusal(new(Operation), 0, err)
	}
	op := operationIn(req.Context())
	if op == nil {
		u := &undertaking{Context: req.Context(), op: Operation{auto: true}}
		u.request = *req.WithContext(u)
		op, req = &u.op, &u.request
	}
	client := c.HTTP
	if client == nil {
		client = c.own.Client()
	}
	resp, err := client.Do(req)
	if err != nil {
		return nil, op.explain(err)
	}
	return Check(resp, nil)
}

// An undertaking is the operation of a Do that was given none, in one allocation with the context and the request that carry
// it.
type undertaking struct {
	context.Context
	op      Operation
	request http.Request
}

func (u *undertaking) Value(key any) any {
	if key == (operationKey{}) {
		return &u.op
	}
	return u.Context.Value(key)
}

// explain makes an *Error of what http.Client returned. With a Timeout it rebuilds errors as text, so the operation knows
// better how it ended than they do. Without any attempt on record nobody knows who sent what.
func (op *Operation) explain(err error) *Error {
	var e *Error
	if errors.As(err, &e) {
		return e
	}
	op.mu.Lock()
	defer op.mu.Unlock()
	op.show()
	if op.failed != nil {
		known := *op.failed
		known.Outcome, known.Err = op.history.outcome(), join(err, known.Err)
		return &known
	}
	e = &Error{Operation: op, Attempts: op.history.attempts, Sends: op.history.sends, Err: err}
	if op.history.attempts > 0 {
		e.Outcome = op.history.outcome()
	}
	return e
}

// Check judges what any client on top of a Transport returned: semel.Check(client.Do(req)). It returns the response if it
// is the operation's answer, and otherwise an *[Error] that has it, its body in memory. A response that carries no report
// of a Transport says nothing: its operation is [Unknown].
func Check(resp *http.Response, err error) (*http.Response, error) {
	if err != nil {
		if resp != nil {
			closeReply(resp)
		}
		var e *Error
		if errors.As(err, &e) {
			return nil, e
		}
		return nil, &Error{Operation: new(Operation), Err: err}
	}
	if resp == nil {
		return nil, &Error{Operation: new(Operation), Err: errors.New("neither a response nor an error")}
	}
	var c *call
	if resp.Request != nil {
		c = callIn(resp.Request.Context())
	}
	if c == nil {
		whole(resp)
		return nil, &Error{Operation: new(Operation), Response: resp, Err: errors.New("the response carries no report of a semel.Transport")}
	}
	if c.stop == nil && answers(c.verdict) && c.answered(resp.StatusCode) {
		return resp, nil
	}
	whole(resp)
	e := c.report()
	e.Response, e.Err = resp, join(c.stop, answered(resp.StatusCode))
	return nil, e
}

// answered reports whether the reply can be the operation's answer by what is known of it. A refusal is not, once the
// operation is known to have happened: it is of a repeat, say with a token that has run out, or of what a 303 led to.
func (c *call) answered(status int) bool {
	switch c.op.Outcome() {
	case Unknown:
		return false
	case Applied, AppliedEarlier:
		return status < 400 || c.safe && !c.hop
	default:
		return true
	}
}

// answers reports whether a reply with this verdict can be what the caller asked for.
func answers(v Verdict) bool { return v == Final || v == Replay || v == Refused }
