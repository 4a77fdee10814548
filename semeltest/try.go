package semeltest

import (
	"bytes"
	"context"
	"crypto/tls"
	"errors"
	"io"
	"net"
	"net/http"
	"net/http/httptrace"
	"strings"
	"sync/atomic"
	"syscall"
	"time"
)

// attemptHeader tells the world's own server which attempt a request belongs to. The handler does not see it.
const attemptHeader = "Semeltest-Attempt"

// A try is one attempt, or a copy of one.
type try struct {
	world    *World
	id       string
	method   string
	key      string
	op, n    int
	copy     bool
	trouble  *trouble
	sends    atomic.Int32
	arrivals atomic.Int32
}

func (y *try) roundTrip(req *http.Request) (*http.Response, error) {
	t := y.trouble
	y.world.record(y, onAttempt, 0, strings.Join(t.names, ", "))
	resp, err := y.attempt(req)
	if err != nil {
		y.world.record(y, onFailure, 0, shortError(err))
		return nil, err
	}
	detail := ""
	if resp.Header.Get("Idempotent-Replayed") == "true" {
		detail = "replayed"
	}
	y.world.record(y, onReply, resp.StatusCode, detail)
	resp.Request = req
	if resp.StatusCode != http.StatusSwitchingProtocols {
		resp.Body = &replyBody{ReadCloser: resp.Body, try: y}
		y.world.unclosed.Add(1)
	}
	return resp, nil
}

func (y *try) attempt(req *http.Request) (*http.Response, error) {
	t, ctx := y.trouble, req.Context()
	if err := pause(ctx, t.hang); err != nil {
		closeBody(req)
		return nil, &net.OpError{Op: "dial", Net: "tcp", Addr: addr(req.URL.Host), Err: err}
	}
	if t.dial != nil {
		closeBody(req)
		return nil, &net.OpError{Op: "dial", Net: "tcp", Addr: addr(req.URL.Host), Err: t.dial}
	}
	out := req.Clone(httptrace.WithClientTrace(ctx, &httptrace.ClientTrace{GotConn: func(info httptrace.GotConnInfo) { y.gotConn(req, info) }}))
	if err := y.multiply(out); err != nil {
		return nil, err
	}
	if y.world.Handler == nil {
		if t.status != 0 {
			closeBody(req)
			return y.madeUp(req), nil
		}
	} else {
		out.Header.Set(attemptHeader, y.id)
	}
	if err := pause(ctx, t.hold); err != nil {
		closeBody(out)
		return nil, err
	}
	if t.half != Open {
		t.up = &Cut{After: headSize(out) + max(out.ContentLength, 0)/2, End: t.half}
	}
	if t.up != nil && y.soft(req, t.up) {
		if err := cutRequest(out, *t.up); err != nil {
			return nil, err
		}
	}
	resp, err := y.world.transport.RoundTrip(out)
	if err == nil && t.down != nil && y.soft(req, t.down) {
		return cutReply(ctx, resp, *t.down)
	}
	return resp, err
}

// soft reports whether the cut is made above the connection: where that carries other replies as well, or hides what its
// bytes are. A cut before the first byte needs to know nothing of them.
func (y *try) soft(req *http.Request, c *Cut) bool {
	w := y.world
	return w.HTTP2 || req.URL.Scheme == "https" && (w.Handler == nil || c.After > 0)
}

// gotConn is called for each send, with the connection that it goes out on.
func (y *try) gotConn(req *http.Request, info httptrace.GotConnInfo) {
	n := y.sends.Add(1)
	detail := ""
	if n > 1 {
		detail = "by net/http itself"
	}
	y.world.record(y, onSend, 0, detail)
	if n > 1 {
		return
	}
	c := info.Conn
	if secure, ok := c.(*tls.Conn); ok {
		c = secure.NetConn()
	}
	sim, _ := c.(*conn)
	if t, ok := c.(*tunnel); ok {
		sim = t.client
	}
	if sim == nil {
		return
	}
	if t := y.trouble; t.up != nil && !y.soft(req, t.up) {
		sim.out.cut(*t.up)
	}
	if t := y.trouble; t.down != nil && !y.soft(req, t.down) {
		sim.in.cut(*t.down)
	}
}

// multiply lets copies of the request travel.
func (y *try) multiply(out *http.Request) error {
	if len(y.trouble.copies) == 0 {
		return nil
	}
	var body []byte
	if out.Body != nil {
		var err error
		body, err = io.ReadAll(out.Body)
		out.Body.Close()
		if err != nil {
			return err
		}
	}
	fresh := func() (io.ReadCloser, error) { return io.NopCloser(bytes.NewReader(body)), nil }
	if out.Body != nil && out.Body != http.NoBody {
		out.Body, _ = fresh()
	}
	for _, d := range y.trouble.copies {
		again := out.Clone(context.WithoutCancel(out.Context()))
		if again.Body != nil && again.Body != http.NoBody {
			again.Body, _ = fresh()
		}
		if y.world.enter() {
			go func() {
				defer y.world.running.Done()
				y.travel(again, d)
			}()
		}
	}
	return nil
}

// travel brings a copy to the server, later, for nobody.
func (y *try) travel(req *http.Request, d time.Duration) {
	w := y.world
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	late := time.NewTimer(d)
	defer late.Stop()
	select {
	case <-late.C:
	case <-w.closed:
		return
	}
	again := &try{world: w, id: randomName(), key: y.key, op: y.op, n: y.n, copy: true, trouble: new(trouble)}
	w.mu.Lock()
	w.attempts[again.id] = again
	w.mu.Unlock()
	req = req.Clone(httptrace.WithClientTrace(ctx, &httptrace.ClientTrace{GotConn: func(info httptrace.GotConnInfo) { again.gotConn(req, info) }}))
	if w.Handler != nil {
		req.Header.Set(attemptHeader, again.id)
	}
	w.running.Go(func() { // Close does not wait for replies that never come
		select {
		case <-w.closed:
			cancel()
		case <-ctx.Done():
		}
	})
	if resp, err := w.transport.RoundTrip(req); err == nil {
		_, _ = io.Copy(io.Discard, resp.Body)
		resp.Body.Close()
	}
}

// madeUp is the reply of a gateway before a live server.
func (y *try) madeUp(req *http.Request) *http.Response {
	t := y.trouble
	return &http.Response{
		Status: http.StatusText(t.status), StatusCode: t.status, Proto: "HTTP/1.1", ProtoMajor: 1, ProtoMinor: 1, Header: t.header.Clone(),
		Body: io.NopCloser(strings.NewReader(t.body)), ContentLength: int64(len(t.body)), Request: req,
	}
}

func closeBody(req *http.Request) {
	if req.Body != nil {
		req.Body.Close()
	}
}

// A replyBody tells the history how a reply's body ended.
type replyBody struct {
	io.ReadCloser
	try   *try
	ended atomic.Bool
}

func (b *replyBody) Read(p []byte) (int, error) {
	n, err := b.ReadCloser.Read(p)
	if err != nil && !b.end() && err != io.EOF {
		b.try.world.record(b.try, onFailure, 0, "in the body: "+shortError(err))
	}
	return n, err
}

func (b *replyBody) Close() error {
	b.end()
	return b.ReadCloser.Close()
}

// end counts the body as done, and reports whether it was already.
func (b *replyBody) end() bool {
	was := b.ended.Swap(true)
	if !was {
		b.try.world.unclosed.Add(-1)
	}
	return was
}

// shortError is what a reader of a diagram needs of an error.
func shortError(err error) string {
	for _, known := range []struct {
		err  error
		text string
	}{
		{context.Canceled, "cancelled"}, {context.DeadlineExceeded, "deadline exceeded"}, {syscall.ECONNREFUSED, "connection refused"},
		{syscall.ECONNRESET, "connection reset"}, {syscall.EPIPE, "broken pipe"}, {io.ErrUnexpectedEOF, "unexpected EOF"}, {io.EOF, "EOF"},
	} {
		if errors.Is(err, known.err) {
			return known.text
		}
	}
	s := strings.TrimPrefix(err.Error(), "net/http: HTTP/1.x transport connection broken: ")
	s, _, _ = strings.Cut(s, `: "`) // bytes that could not be parsed
	return s[:min(len(s), 60)]
}
