package semel

import (
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
	u := &undertaking{Context: req.Context()}
	u.request = *req.WithContext(u)
	client := c.HTTP
	if client == nil {
		client = c.own.Client()
	}
	resp, err := client.Do(&u.request)
	if err != nil {
		return nil, u.explain(err)
	}
	return Check(resp, nil)
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
		return nil, &Error{Operation: new(Operation), Err: bare(err)}
	}
	if resp == nil {
		return nil, &Error{Operation: new(Operation), Err: errors.New("neither a response nor an error")}
	}
	var c *call
	if resp.Request != nil {
		if l, ok := resp.Request.Context().(*light); ok && l.isAnswer(resp) {
			return resp, nil
		}
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
