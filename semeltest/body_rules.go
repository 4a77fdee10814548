package semeltest

import (
	"context"
	"errors"
	"io"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"time"
)

// A callersBody is a request body that notices what is done to it.
type callersBody struct {
	mu        sync.Mutex
	r         io.Reader
	closes    atomic.Int32
	readAfter atomic.Bool // it was read after it was closed
}

func (b *callersBody) Read(p []byte) (int, error) {
	if b.closes.Load() > 0 {
		b.readAfter.Store(true)
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.r.Read(p)
}

func (b *callersBody) Close() error {
	b.closes.Add(1)
	return nil
}

// withBody makes a RoundTrip with a body that cannot be had again, and checks that it was closed.
func (p *clientCase) withBody(ctx context.Context, content string, length int64) (*http.Response, error) {
	p.expect([]byte(content))
	return p.withReader(ctx, io.MultiReader(strings.NewReader(content)), length)
}

func (p *clientCase) withReader(ctx context.Context, r io.Reader, length int64) (*http.Response, error) {
	body := &callersBody{r: r}
	resp, err := p.trip(ctx, func(r *http.Request) { r.Body, r.GetBody, r.ContentLength = body, nil, length })
	p.finish(resp)
	_ = pause(p.ctx, time.Second) // it may be closed later, by another goroutine
	if n := body.closes.Load(); n == 0 {
		p.errorf("the request's body was not closed")
	}
	if body.readAfter.Load() {
		p.errorf("the request's body was read after it had been closed")
	}
	return resp, err
}

var errSource = errors.New("the source of the body failed")

// A failingReader fails in the middle.
type failingReader struct{ r io.Reader }

func (f *failingReader) Read(p []byte) (int, error) {
	n, err := f.r.Read(p)
	if err == io.EOF {
		err = errSource
	}
	return n, err
}

const large = 1 << 20

var bodyRules = []clientRule{
	{name: "body/it is closed after an answer", rule: "RoundTrip closes the request's body.", run: func(p *clientCase) {
		if _, err := p.withBody(p.ctx, "body", 4); err != nil {
			p.errorf("RoundTrip failed: %v", err)
		}
	}},
	{name: "body/it is closed when nothing can be sent", rule: "RoundTrip closes the request's body, on errors too.", faults: []Fault{From(NoDial(1))}, run: func(p *clientCase) {
		_, _ = p.withBody(p.ctx, "body", 4)
	}},
	{name: "body/it is closed when the context has ended", rule: "RoundTrip closes the request's body, even if its context had ended before.", run: func(p *clientCase) {
		ctx, cancel := context.WithCancel(p.ctx)
		cancel()
		_, _ = p.withBody(ctx, "body", 4)
	}},
	{name: "body/it is whole in every attempt", rule: "A body that can be had again is sent from its first byte in every attempt, with its length.", faults: []Fault{Reply(1, 503, 0), LoseReply(2), halfRequest(3, RST)}, run: func(p *clientCase) {
		resp, _ := p.trip(p.ctx, nil)
		p.finish(resp)
	}},
	{name: "body/one that cannot be had again is whole or sent once", rule: "A body without GetBody is sent again only from its first byte, or not at all.", faults: []Fault{LoseReply(1)}, run: func(p *clientCase) {
		resp, err := p.withBody(p.ctx, strings.Repeat("once", 1000), 4000)
		if err == nil && resp.StatusCode < 300 && p.api.total() == 0 {
			p.errorf("success was reported, and nothing arrived")
		}
	}},
	{name: "body/one of unknown length is whole or sent once", rule: "A body of unknown length is sent again only from its first byte, or not at all.", faults: []Fault{LoseReply(1)}, run: func(p *clientCase) {
		_, _ = p.withBody(p.ctx, "a pipe, say", -1)
	}},
	{name: "body/its source fails", rule: "When the body's source fails while it is sent, the operation takes no effect and the error says why (faults.md 9).", run: func(p *clientCase) {
		_, err := p.withReader(p.ctx, &failingReader{strings.NewReader("half of the bo")}, 28)
		if !errors.Is(err, errSource) {
			p.errorf("RoundTrip returned %v", err)
		}
		if p.api.total() > 0 {
			p.errorf("half a body took effect")
		}
	}},
	{name: "body/a refusal before it was read is returned", rule: "A final status that comes before the body was read is a reply, or an error; never both and never a success (faults.md 12).", faults: []Fault{From(earlyReply(1, 413))}, run: func(p *clientCase) {
		resp, err := p.trip(p.ctx, largeBody)
		if p.finish(resp); err == nil && resp.StatusCode != 413 {
			p.errorf("the reply is %d", resp.StatusCode)
		}
	}},
	{name: "body/after an early 503 it is sent whole", rule: "When the server refuses before it has read the body, the next attempt sends it from its first byte, with a reader of its own (faults.md 12).", faults: []Fault{earlyReply(1, 503), earlyReply(2, 503)}, run: func(p *clientCase) {
		resp, _ := p.trip(p.ctx, largeBody)
		p.finish(resp)
	}},
	{name: "body/100 Continue comes late", rule: "With Expect: 100-continue the body is sent after a while even if no 100 comes, and has one effect (faults.md 11).", faults: []Fault{dozes(1, 10*time.Second)}, run: func(p *clientCase) {
		resp, err := p.trip(p.ctx, func(r *http.Request) { r.Header.Set("Expect", "100-continue") })
		if p.finish(resp); err == nil && resp.StatusCode < 300 {
			p.effects = 1
		}
	}},
	{name: "body/a refusal instead of 100 Continue", rule: "With Expect: 100-continue a 503 that comes instead of the 100 is followed by another attempt with the whole body (faults.md 11).", faults: []Fault{earlyReply(1, 503)}, run: func(p *clientCase) {
		resp, _ := p.trip(p.ctx, func(r *http.Request) {
			largeBody(r)
			r.Header.Set("Expect", "100-continue")
		})
		p.finish(resp)
	}},
}

// largeBody gives the request a body that does not fit into buffers.
func largeBody(r *http.Request) {
	text := strings.Repeat("0123456789abcdef", large/16)
	r.GetBody = func() (io.ReadCloser, error) { return io.NopCloser(strings.NewReader(text)), nil }
	r.Body, _ = r.GetBody()
	r.ContentLength = large
}
