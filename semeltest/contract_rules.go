package semeltest

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"reflect"
	"strings"
	"sync"
	"syscall"
	"time"
)

// contractRules are the http.RoundTripper contract, and what a repeat must not break.
func contractRules() (rules []clientRule) {
	rules = append(rules, replyRules...)
	rules = append(rules, bodyRules...)
	rules = append(rules, tlsRules...)
	return append(rules, keyRules...)
}

// trip makes one RoundTrip of a request with a key, changed by change.
func (p *clientCase) trip(ctx context.Context, change func(*http.Request)) (*http.Response, error) {
	req, err := newPost(ctx, 1)
	if err != nil {
		p.fatalf("%v", err)
	}
	p.client.Rules.setKey(req, "contract-"+randomName())
	if change != nil {
		change(req)
	}
	if req.GetBody != nil {
		if body, err := req.GetBody(); err == nil {
			content, _ := io.ReadAll(body)
			p.expect(content)
		}
	}
	p.trips++
	type result struct {
		resp *http.Response
		err  error
	}
	within := time.Hour
	if end, ok := ctx.Deadline(); ok {
		within = time.Until(end)
	}
	got, ok := bounded(p.check, within, func() result {
		resp, err := p.client.transport(p.world).RoundTrip(req)
		return result{resp, err}
	})
	if !ok {
		panic(stopped{})
	}
	resp, err := got.resp, got.err
	if (resp == nil) == (err == nil) {
		p.fatalf("RoundTrip returned a response and an error, or neither: %v, %v", resp, err)
	}
	return resp, err
}

// finish reads a reply to its end and closes it.
func (p *clientCase) finish(resp *http.Response) string {
	if resp == nil {
		return ""
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(resp.Body)
	if err != nil {
		p.errorf("the body of the reply fails: %v", err)
	}
	return string(body)
}

var replyRules = []clientRule{
	{name: "contract/a reply is no error", rule: "RoundTrip returns a nil error if it obtained a response, whatever its status.", faults: []Fault{
		On(1, From(Reply(1, 404, 0))), On(2, From(Reply(1, 409, 0))), On(3, From(Reply(1, 500, 0))), On(4, From(Reply(1, 503, 0))), On(5, From(Reply(1, 422, 0)))},
		run: func(p *clientCase) {
			for _, want := range []int{404, 409, 500, 503, 422} {
				resp, err := p.trip(p.ctx, nil)
				if err != nil {
					p.errorf("a server that always answers %d is an error: %v", want, err)
					continue
				}
				if body := p.finish(resp); resp.StatusCode != want || body != http.StatusText(want)+"\n" {
					p.errorf("the last reply is %d %q, not %d", resp.StatusCode, body, want)
				}
			}
		}},
	{name: "contract/redirects are the client's", rule: "RoundTrip does not follow redirects.", faults: []Fault{replying(1, 302, "", "Location", "/elsewhere")}, run: func(p *clientCase) {
		resp, err := p.trip(p.ctx, nil)
		if err != nil || resp.StatusCode != 302 {
			p.fatalf("a redirect came back as %v, %v", resp, err)
		}
		p.finish(resp)
	}},
	{name: "contract/discarded replies are closed", rule: "A reply that is followed by another attempt is read or closed; else its connection is lost.", faults: []Fault{Reply(1, 503, 0), Reply(2, 503, 0)}, run: func(p *clientCase) {
		resp, _ := p.trip(p.ctx, nil)
		p.finish(resp)
		_ = pause(p.ctx, time.Second)
		if n := p.world.unclosed.Load(); n > 0 {
			p.errorf("%d replies were not closed", n)
		}
	}},
	{name: "contract/a reply without end is handed over", rule: "A stream is handed over when its head is there, not when it ends.", run: func(p *clientCase) {
		p.api.inner = http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			w.Header().Set("Content-Type", "text/event-stream")
			fmt.Fprint(w, "data: 1\n\n")
			http.NewResponseController(w).Flush()
			<-r.Context().Done()
		})
		ctx, cancel := context.WithTimeout(p.ctx, time.Hour)
		defer cancel()
		begun := time.Now()
		resp, err := p.trip(ctx, func(r *http.Request) { r.Method, r.Body, r.GetBody, r.ContentLength = "GET", nil, nil, 0 })
		if err != nil {
			p.fatalf("RoundTrip failed: %v", err)
		}
		first := make([]byte, 9)
		if _, err := io.ReadFull(resp.Body, first); err != nil || string(first) != "data: 1\n\n" {
			p.errorf("the stream begins with %q, %v", first, err)
		}
		if took := time.Since(begun); took > 5*time.Second {
			p.errorf("the stream was held back for %v", took)
		}
		resp.Body.Close()
	}},
	{name: "contract/the context's error is recognized", rule: "When the context ends the error says so, and RoundTrip returns at once.", slow: time.Hour, run: func(p *clientCase) {
		ctx, cancel := context.WithTimeout(p.ctx, 5*time.Second)
		defer cancel()
		begun := time.Now()
		resp, err := p.trip(ctx, nil)
		if err == nil || !errors.Is(err, context.DeadlineExceeded) {
			p.errorf("after the deadline RoundTrip returned %v, %v", resp, err)
		}
		if took := time.Since(begun); took > 6*time.Second {
			p.errorf("with a deadline of 5s RoundTrip took %v", took)
		}
	}},
	{name: "contract/the failure is kept", rule: "The error that ends the attempts still matches what went wrong.", faults: []Fault{From(NoDial(1))}, run: func(p *clientCase) {
		if _, err := p.trip(p.ctx, nil); err == nil || !errors.Is(err, syscall.ECONNREFUSED) {
			p.errorf("a connection that is always refused gives %v", err)
		}
	}},
	{name: "contract/concurrent use", rule: "RoundTrip is safe for concurrent use.", faults: []Fault{Reply(1, 503, 0)}, run: func(p *clientCase) {
		rt := p.client.transport(p.world)
		p.trips = 20
		var wg sync.WaitGroup
		for n := range p.trips {
			wg.Go(func() {
				req, err := newPost(p.ctx, n)
				if err != nil {
					return
				}
				p.client.Rules.setKey(req, fmt.Sprintf("concurrent-%d", n))
				if resp, err := rt.RoundTrip(req); err == nil {
					_, _ = io.Copy(io.Discard, resp.Body)
					resp.Body.Close()
				}
			})
		}
		wg.Wait()
		if keys := p.keys(); len(keys) != p.trips {
			p.errorf("%d operations went out under %d keys", p.trips, len(keys))
		}
	}},
}

var keyRules = []clientRule{
	{name: "contract/the request is not modified", rule: "RoundTrip does not modify the request, except for consuming and closing its body.", faults: []Fault{Reply(1, 503, 0), LoseReply(2)}, run: func(p *clientCase) {
		var before *http.Request
		var req *http.Request
		resp, _ := p.trip(p.ctx, func(r *http.Request) { req, before = r, r.Clone(r.Context()) })
		p.finish(resp)
		if !reflect.DeepEqual(req.Header, before.Header) {
			p.errorf("the header was %v, and is %v", before.Header, req.Header)
		}
		if req.URL.String() != before.URL.String() || req.Method != before.Method || req.ContentLength != before.ContentLength || req.Host != before.Host {
			p.errorf("the request was %s %s, and is %s %s", before.Method, before.URL, req.Method, req.URL)
		}
		if req.Body != before.Body || (req.GetBody == nil) != (before.GetBody == nil) {
			p.errorf("its Body or GetBody was replaced")
		}
	}},
	{name: "contract/the caller's key goes out unchanged", rule: "A key that the caller has set goes out as it is, once, with every attempt.", faults: []Fault{Reply(1, 503, 0), LoseReply(2)}, run: func(p *clientCase) {
		const key = "the-callers-own-key-1"
		resp, _ := p.trip(p.ctx, func(r *http.Request) { p.client.Rules.setKey(r, key) })
		p.finish(resp)
		for _, k := range p.keys() {
			if strings.Trim(k, `"`) != key {
				p.errorf("an attempt went out under %q", k)
			}
		}
	}},
	{name: "contract/without a key a lost POST is not repeated", rule: "A POST is sent again after a lost reply only under a key; if the caller brought none and none was made, it is sent once.", faults: []Fault{From(LoseReply(1))}, run: func(p *clientCase) {
		resp, _ := p.trip(p.ctx, func(r *http.Request) { r.Header.Del(p.client.Rules.header()) })
		p.finish(resp)
		if keys := p.keys(); len(keys) != 1 || keys[0] == "" && len(p.attempts()) > 1 {
			p.errorf("%d attempts went out under the keys %q", len(p.attempts()), keys)
		}
		if p.api.total() > 1 {
			p.errorf("there were %d effects", p.api.total())
		}
	}},
}
