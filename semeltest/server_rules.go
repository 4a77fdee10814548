package semeltest

import (
	"context"
	"maps"
	"net/http"
	"net/http/httptrace"
	"slices"
	"strings"
	"sync"
	"time"
)

func serverRules() (rules []serverRule) {
	for _, part := range [][]serverRule{answerRules, keyUseRules, raceServerRules, wireRules, lateRules, crashRules(), leaseRules, stormRules()} {
		rules = append(rules, part...)
	}
	return rules
}

// mayDiffer are header fields that belong to a message and not to the answer.
var mayDiffer = []string{"Date", "Age", "Connection", "Keep-Alive", "Transfer-Encoding", "Content-Length", "Set-Cookie", "Server", "Via"}

func (p *serverCase) sameHeader(first, second *heard) {
	marker, _ := p.server.Rules.marker()
	for name, values := range first.header {
		lower := strings.ToLower(name)
		if slices.Contains(mayDiffer, name) || strings.Contains(lower, "request-id") || strings.Contains(lower, "trace") || strings.HasPrefix(lower, "x-ratelimit") || strings.EqualFold(name, marker) {
			continue
		}
		if got := second.header.Values(name); !slices.Equal(got, values) {
			p.errorf("the answer had %s: %q, the replay has %q", name, values, got)
		}
	}
}

// twice performs an operation and repeats it.
func twice(p *serverCase) {
	n, key := p.operation(), p.newKey()
	first := p.send(n, key)
	if !first.success() {
		p.fatalf("the operation is not answered with success: %v", first)
	}
	p.mustHave(n, 1)
	again := p.send(n, key)
	p.mustHave(n, 1)
	if !again.success() {
		p.fatalf("the repeat is answered %v", again)
	}
	p.sameHeader(first, again)
	if name, value := p.server.Rules.marker(); name != "" && !p.marked(again) {
		p.errorf("the repeat has no %s: %s", name, value)
	}
	if p.marked(first) {
		p.errorf("the first answer is marked as stored")
	}
}

var answerRules = []serverRule{
	{name: "answer/a repeat gets the same", rule: "A repeat under the same key has no effect, and gets the stored answer: its status, its bytes, its header fields, and the mark (faults.md 32, 38).", run: twice}, // servers.md B22, B27, B31
	{name: "answer/a repeat gets the same over HTTP2", rule: "A repeat over HTTP/2 gets the stored answer.", http2: true, run: twice},
	{name: "answer/it is framed", rule: "An answer has a length or comes in chunks, so that one that was cut short can be told (faults.md 35).", run: func(p *serverCase) {
		n, key := p.operation(), p.newKey()
		for range 2 {
			if h := p.send(n, key); h.err == nil && h.length < 0 && !h.coded {
				p.errorf("the end of the connection is the end of the answer: %v", h)
			}
		}
	}},
}

var keyUseRules = []serverRule{
	{name: "key/two keys are two operations", rule: "Operations under different keys each take effect, and get answers of their own; keys are compared exactly (faults.md 41).", run: func(p *serverCase) {
		key := p.newKey()
		for _, k := range []string{key, key + "-2", strings.ToLower(key)} {
			n := p.operation()
			if h := p.send(n, k); !h.success() || p.marked(h) {
				p.errorf("a fresh operation under a fresh key is answered %v", h)
			}
			p.mustHave(n, 1)
		}
	}},
	{name: "key/another request is refused", rule: "Another request under a used key is refused at once and has no effect; the first answer stays (faults.md 48).", run: func(p *serverCase) { // servers.md B25
		n, other, key := p.operation(), p.operation(), p.newKey()
		p.send(n, key)
		first := p.answers[key]
		h := p.sendAlien(other, key)
		if want := p.server.Rules.status("key_reused"); want > 0 && (h.err != nil || h.status != want) {
			p.errorf("another request under the same key is answered %v, not %d", h, want)
		}
		p.mustHave(other, 0)
		if again := p.send(n, key); first != nil && !again.success() {
			p.errorf("after that the first request is answered %v", again)
		}
		p.mustHave(n, 1)
	}},
	{name: "key/a request without one is refused", rule: "A request without a key is refused and has no effect.", needs: refuses("key_missing"), run: func(p *serverCase) {
		n := p.operation()
		if h := p.send(n, ""); h.status != p.server.Rules.status("key_missing") {
			p.errorf("without a key it is answered %v", h)
		}
		p.mustHave(n, 0)
	}},
	{name: "key/an empty one is refused", rule: "An empty key is no key.", needs: refuses("key_missing"), run: func(p *serverCase) {
		n := p.operation()
		if h := p.send(n, "", func(r *http.Request) { r.Header[p.server.Rules.header()] = []string{""} }); h.err == nil && h.status < 400 {
			p.errorf("with an empty key it is answered %v", h)
		}
		p.mustHave(n, 0)
	}},
	{name: "key/two at once are refused", rule: "A request with two different keys is refused and has no effect.", needs: refuses("key_invalid"), run: func(p *serverCase) {
		n := p.operation()
		if h := p.send(n, "", func(r *http.Request) { r.Header[p.server.Rules.header()] = []string{p.newKey(), p.newKey()} }); h.err == nil && h.status < 400 {
			p.errorf("with two keys it is answered %v", h)
		}
		p.mustHave(n, 0)
	}},
	{name: "key/it belongs to its principal", rule: "The same key of another principal is another key: nobody gets somebody else's answer (faults.md 41).", needs: func(s *Server) bool { return s.As != nil }, run: func(p *serverCase) { // servers.md B24
		n, other, key := p.operation(), p.operation(), p.newKey()
		if h := p.send(n, key); !h.success() {
			p.errorf("the operation is answered %v", h)
		}
		p.mu.Lock()
		delete(p.answers, key)
		p.mu.Unlock()
		if h := p.send(other, key, func(r *http.Request) { p.server.As(r, 2) }); !h.success() || p.marked(h) {
			p.errorf("another principal's operation under the same key is answered %v", h)
		}
		p.mustHave(other, 1)
	}},
}

func refuses(code string) func(*Server) bool {
	return func(s *Server) bool { return s.Rules.status(code) > 0 }
}

// sendAlien sends an operation under the key of another, whose answers are not compared with it.
func (p *serverCase) sendAlien(n int, key string) *heard {
	p.mu.Lock()
	kept := maps.Clone(p.answers)
	p.mu.Unlock()
	h := p.send(n, key)
	p.mu.Lock()
	p.answers = kept
	p.broken = nil
	p.mu.Unlock()
	if h.success() && p.server.Rules.status("key_reused") > 0 {
		p.errorf("it got an answer: %v", h)
	}
	return h
}

var raceServerRules = []serverRule{
	{name: "race/many first requests at once", rule: "Of simultaneous first requests under one key exactly one takes effect; all get its answer, at once or when they ask again (faults.md 17).", run: func(p *serverCase) { atOnce(p, 20) }}, // servers.md B1, B2
	{name: "race/many first requests at once over HTTP2", rule: "The same over HTTP/2.", http2: true, run: func(p *serverCase) { atOnce(p, 20) }},
	{name: "race/two first requests, many times", rule: "Of two simultaneous first requests exactly one takes effect, every time (faults.md 17).", run: func(p *serverCase) {
		for range 20 {
			atOnce(p, 2)
		}
	}},
	{name: "race/the network doubles a request", rule: "A request that arrives twice at once has one effect (faults.md 42).", faults: []Fault{Twice(1)}, run: func(p *serverCase) { p.settled(p.operation(), p.newKey()) }},
}

func atOnce(p *serverCase, callers int) {
	n, key := p.operation(), p.newKey()
	var wg sync.WaitGroup
	start := make(chan struct{})
	replies := make([]*heard, callers)
	for i := range replies {
		wg.Go(func() {
			<-start
			replies[i] = p.send(n, key)
		})
	}
	close(start)
	wg.Wait()
	for _, h := range replies {
		if !h.success() && (h.err != nil || h.status != p.server.Rules.status("in_progress") && h.status < 500) {
			p.errorf("a simultaneous request is answered %v", h)
		}
	}
	p.settled(n, key)
}

var wireRules = []serverRule{
	{name: "wire/the reply is lost", rule: "When the reply is lost, a repeat gets it, and there is one effect (faults.md 32).", faults: []Fault{LoseReply(1)}, run: settles},
	{name: "wire/three replies are lost", rule: "However many replies are lost, there is one effect (faults.md 32).", faults: []Fault{LoseReply(1), CutReply(2, 10, FIN), CutReply(3, 60, RST)}, run: settles},
	{name: "wire/the reply is lost over HTTP2", rule: "When the reply is lost, a repeat gets it, and there is one effect (faults.md 39).", http2: true, faults: []Fault{LoseReply(1)}, run: settles},
	{name: "wire/the request's head is cut", rule: "A request that was cut in its head leaves nothing behind (faults.md 5, 6).", faults: []Fault{CutRequest(1, 40, RST), CutRequest(2, 40, FIN)}, run: settles},
	{name: "wire/the request's body is cut by RST", rule: "A request whose body was not read whole claims nothing and takes no effect (faults.md 7).", faults: []Fault{halfRequest(1, RST)}, run: cutsBody},
	{name: "wire/the request's body is cut by FIN", rule: "A request whose body was not read whole claims nothing and takes no effect (faults.md 7).", faults: []Fault{halfRequest(1, FIN)}, run: cutsBody},
	{name: "wire/the request's body stalls", rule: "A request whose body stalls claims nothing: a repeat is not kept waiting for it (faults.md 8).", faults: []Fault{halfRequest(1, Stall)}, run: cutsBody},
	{name: "wire/the client leaves", rule: "A client that leaves when its request is written changes nothing: the operation ends once, and a repeat gets its answer (faults.md 21).", run: func(p *serverCase) { // servers.md B13
		n, key := p.operation(), p.newKey()
		p.leave(n, key)
		p.settled(n, key)
	}},
	{name: "wire/many clients leave", rule: "Clients that leave one after the other change nothing (faults.md 21).", run: func(p *serverCase) {
		n, key := p.operation(), p.newKey()
		for range 5 {
			p.leave(n, key)
		}
		p.settled(n, key)
	}},
}

func settles(p *serverCase) { p.settled(p.operation(), p.newKey()) }

// cutsBody sends half a request, and then the whole.
func cutsBody(p *serverCase) {
	n, key := p.operation(), p.newKey()
	ctx, cancel := context.WithTimeout(p.ctx, p.sim(5*time.Second, 200*time.Millisecond))
	h := p.sendIn(ctx, n, key)
	cancel()
	_ = pause(p.ctx, p.sim(5*time.Second, 100*time.Millisecond))
	if h.success() {
		p.errorf("half a request is answered %v", h)
	}
	p.mustHave(n, 0)
	if h := p.settled(n, key); p.marked(h) && p.server.Effects != nil {
		p.errorf("the first whole request is answered with a stored answer: %v", h)
	}
}

// leave sends the request and goes, once it is written.
func (p *serverCase) leave(n int, key string) {
	ctx, cancel := context.WithCancel(p.ctx)
	defer cancel()
	ctx = httptrace.WithClientTrace(ctx, &httptrace.ClientTrace{WroteRequest: func(httptrace.WroteRequestInfo) { cancel() }})
	p.sendIn(ctx, n, key)
}

var lateRules = []serverRule{
	{name: "late/a copy arrives after the answer", rule: "A copy that arrives after the answer has no effect (faults.md 43).", faults: []Fault{Late(1, 100*time.Millisecond)}, run: func(p *serverCase) {
		n, key := p.operation(), p.newKey()
		p.settled(n, key)
		_ = pause(p.ctx, p.sim(time.Minute, 300*time.Millisecond))
		p.mustHave(n, 1)
	}},
	{name: "late/the answer is kept for its time", rule: "An answer is kept for the retention that was promised (faults.md 44).", needs: func(s *Server) bool { return s.Retention > 0 && s.simulated() }, run: func(p *serverCase) {
		n, key := p.operation(), p.newKey()
		p.settled(n, key)
		time.Sleep(p.server.Retention * 9 / 10)
		if h := p.send(n, key); !h.success() {
			p.errorf("within the retention a repeat is answered %v", h)
		}
		p.mustHave(n, 1)
	}},
	{name: "late/a restart forgets nothing", rule: "What was answered before a restart is answered after it, with no second effect (faults.md 16, 28).", needs: func(s *Server) bool { return s.Restart != nil }, run: func(p *serverCase) { // servers.md B4
		n, key := p.operation(), p.newKey()
		p.settled(n, key)
		p.world.restart(p.server.Restart())
		if h := p.settle(n, key); !h.success() {
			p.errorf("after the restart a repeat is answered %v", h)
		}
		p.mustHave(n, 1)
	}},
}
