package semel

import (
	"context"
	"net/http"
	"sync"
	"sync/atomic"
)

// A light call is a safe request without a key and without a body of which nobody wants to know more than its answer. Most
// are answered at once, and then it costs no more than its request. Whatever else happens is for a [call], which takes over
// with the attempt that was made; so it does when anybody asks how it went. It is the context of its request.
type light struct {
	context.Context

	t       *Transport
	req     *http.Request // the caller's
	request http.Request
	u       *undertaking // of which it is the first request; nil without one

	state atomic.Int32 // the status of the answer, or one of these

	mu   sync.Mutex
	call *call // nil until asked for
}

const (
	pending   = 0  // there is no reply yet
	takenOver = -1 // the call knows
)

// Value is that of a [try].
func (l *light) Value(key any) any {
	switch key {
	case callKey{}:
		return l.full()
	case innermostKey{}:
		return l
	case operationKey{}, undertakingKey{}:
		return nil
	}
	return l.Context.Value(key)
}

// light returns the request as a light call, or nil if it is more than that: if there is anything to watch, to add to it, to
// read of its reply, or to find in what led here.
func (t *Transport) light(req *http.Request, above any) *light {
	d, p := &t.Dialect, &t.Retry
	method := methodOf(req)
	switch {
	case !safeMethod(method), hasBody(req), req.Header == nil, req.Response != nil, d.takes(method):
		return nil
	case t.Observe != nil, t.MaxReply > 0, p.AttemptHeader != "", p.attemptTimeout(false) != 0:
		return nil
	}
	if !d.InBody {
		if key, err := findKey(req.Header, d.header(), d.Quoted); err != nil || key != "" {
			return nil
		}
	}
	ctx := req.Context()
	if ctx.Err() != nil {
		return nil
	}
	var u *undertaking
	if above != nil {
		if u, _ = above.(*undertaking); u == nil || u.Context.Value(innermostKey{}) != nil {
			return nil
		}
	}
	l := &light{t: t, req: req, u: u, Context: ctx}
	l.request = *req.WithContext(l)
	if u != nil && !u.lighten(l) {
		return nil
	}
	return l
}

func (l *light) roundTrip() (*http.Response, error) {
	resp, err := l.t.base().RoundTrip(&l.request)
	if l.answered(resp, err) {
		resp.Request = &l.request
		l.t.retryBudget().earn(l.req.URL.Host)
		return resp, nil
	}
	c := l.full()
	c.first.arrive(resp, err)
	return c.goOn(&c.first, nil)
}

// answered reports whether the reply is the answer, and nobody has asked for more meanwhile.
func (l *light) answered(resp *http.Response, err error) bool {
	if err != nil || resp == nil || resp.Body == nil || resp.StatusCode < 200 || resp.StatusCode >= 400 {
		return false
	}
	return l.state.CompareAndSwap(pending, int32(resp.StatusCode))
}

// full returns the call that this one stands for, with what is known of it by now.
func (l *light) full() *call {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.call != nil {
		return l.call
	}
	c := &call{t: l.t, req: l.req, safe: true}
	c.op = &c.own
	if l.u != nil {
		c.op = &l.u.own
	}
	c.op.lock()
	c.op.first = l.req
	c.op.unlock()
	c.first = try{Context: l.Context, call: c, req: &l.request, n: 1}
	c.underWay(1)
	c.first.depart()
	if !l.state.CompareAndSwap(pending, takenOver) {
		c.first.resp = &http.Response{StatusCode: int(l.state.Load()), Body: http.NoBody}
		c.judge(&c.first)
		c.underWay(-1)
	}
	l.call = c
	return c
}

// isAnswer reports whether resp is the answer of this call, which then has no more to tell.
func (l *light) isAnswer(resp *http.Response) bool {
	return l.state.Load() == int32(resp.StatusCode)
}
