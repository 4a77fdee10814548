package semeltest

import (
	"context"
	"fmt"
	"net/http"
	"sync"
	"time"

	"github.com/semel-go/semel"
	"github.com/semel-go/semel/testserver"
)

func clientRules() (rules []clientRule) {
	rules = append(rules, calmRules...)
	rules = append(rules, wayOutRules...)
	rules = append(rules, wayBackRules...)
	rules = append(rules, statusRules()...)
	rules = append(rules, runningRules...)
	rules = append(rules, callerRules...)
	return rules
}

var calmRules = []clientRule{
	{name: "calm/one operation, one effect", rule: "When nothing goes wrong there is one effect, and the code knows it (faults.md 38).", run: answeredOnce},
	{name: "calm/each operation has its own key", rule: "Two operations go out under two keys, and both take effect.", run: func(p *clientCase) {
		p.perform(1)
		p.perform(2)
		p.effects = 2
		if keys := p.keys(); len(keys) != 2 || keys[0] == "" || keys[1] == "" {
			p.errorf("two operations went out under the keys %q", keys)
		}
	}},
	{name: "calm/a slow answer is waited for", rule: "A server that works for twenty seconds is not hurried into a second effect.", slow: 20 * time.Second, run: answeredOnce},
}

var wayOutRules = []clientRule{
	{name: "out/a refused dial is tried again", rule: "A connection that was refused sent nothing: the operation is tried again (faults.md 1).", faults: []Fault{NoDial(1)}, run: answeredOnce},
	{name: "out/a dial that is refused for ever ends", rule: "When no connection can be had the attempts end, and nobody says that it was applied (faults.md 1).", faults: []Fault{From(NoDial(1))}, run: neverApplied},
	{name: "out/a dial that hangs ends with the deadline", rule: "A dial that hangs ends with the deadline at the latest (faults.md 2).", faults: []Fault{From(hangs(1, 10*time.Hour))}, within: time.Minute, run: neverApplied},
	{name: "out/the request's head is cut by RST", rule: "A request that was cut in its head is sent again (faults.md 5).", faults: []Fault{CutRequest(1, 40, RST)}, run: answeredOnce},
	{name: "out/the request's head is cut by FIN", rule: "A 400 to a request that was cut on its way is no verdict on the operation if an earlier attempt went unanswered (faults.md 6).", faults: []Fault{LoseReply(1), CutRequest(2, 40, FIN)}, run: honest},
	{name: "out/the request's body is cut by RST", rule: "A request that was cut in its body is sent again, from its first byte (faults.md 7).", faults: []Fault{halfRequest(1, RST)}, run: answeredOnce},
	{name: "out/the request's body is cut by FIN", rule: "A request that was cut in its body takes no effect; what is said of it is true (faults.md 7).", faults: []Fault{halfRequest(1, FIN)}, run: honest},
	{name: "out/the request's body stalls", rule: "An upload that stalls ends by the client's own time limit or the deadline (faults.md 8).", faults: []Fault{halfRequest(1, Stall)}, run: honest},
	{name: "out/the request is swallowed", rule: "A request that nobody answers ends by the client's own time limit or the deadline (faults.md 14).", faults: []Fault{CutRequest(1, 0, Stall)}, run: honest},
	{name: "out/the request arrives twice", rule: "A request that the network doubles has one effect, and its answer is had (faults.md 17, 42).", faults: []Fault{Twice(1)}, run: answeredOnce},
	{name: "out/a copy arrives late", rule: "A copy that arrives after the answer changes nothing (faults.md 43).", faults: []Fault{Late(1, 30*time.Second)}, after: time.Minute, run: answeredOnce},
	{name: "out/net/http does not send again by itself", rule: "On a reused connection net/http sends a request with a key and a rewindable body again by itself, without a wait and uncounted: the code must own every send (faults.md 13).", faults: []Fault{On(2, LoseReply(1))}, run: func(p *clientCase) {
		p.perform(1)
		p.perform(2)
		p.effects = 2
		if h := p.world.History(); h.count(onSend) > h.count(onAttempt) {
			p.errorf("%d attempts sent %d requests", h.count(onAttempt), h.count(onSend))
		}
	}},
}

var wayBackRules = []clientRule{
	{name: "back/the reply is lost by RST", rule: "A lost reply is asked for again under the same key (faults.md 32).", faults: []Fault{LoseReply(1)}, run: answeredOnce},
	{name: "back/the reply is lost by FIN", rule: "A lost reply is asked for again under the same key (faults.md 32).", faults: []Fault{CutReply(1, 0, FIN)}, run: answeredOnce},
	{name: "back/the reply never comes", rule: "A silent connection ends by the client's own time limit or the deadline, and nothing false is said of the operation (faults.md 14, 32).", faults: []Fault{CutReply(1, 0, Stall)}, run: honest},
	{name: "back/the reply is cut in its status line", rule: "A reply that is cut in its head is no answer, though its error is that of a parser (faults.md 33).", faults: []Fault{CutReply(1, 10, FIN)}, run: answeredOnce},
	{name: "back/the reply is cut in its header", rule: "A reply that is cut in its head is no answer (faults.md 33).", faults: []Fault{CutReply(1, 60, RST)}, run: answeredOnce},
	{name: "back/the reply is cut in its body", rule: "A reply that is cut in its body is no answer: its status alone must not be taken for one (faults.md 34).", faults: []Fault{At(testserver.InReply, 1, testserver.Cut(5))}, run: answeredOnce},
	{name: "back/the reply is cut before its last byte", rule: "A reply that lacks one byte is no answer (faults.md 34).", faults: []Fault{garbled(1, "cut before its last byte", func(b []byte) []byte { return b[:len(b)-1] })}, run: answeredOnce},
	{name: "back/the reply is empty", rule: "A connection that closes without a byte brought no answer (faults.md 36).", faults: []Fault{garbled(1, "empty", instead(""))}, run: answeredOnce},
	{name: "back/the reply is garbage", rule: "What is no HTTP is no answer (faults.md 36).", faults: []Fault{garbled(1, "garbage", instead("\x00\x01 this is no HTTP\n"))}, run: answeredOnce},
	{name: "back/the reply has a bad chunk", rule: "A body that breaks its framing is no answer (faults.md 36).", faults: []Fault{garbled(1, "in chunks of which one is malformed", badChunk)}, run: answeredOnce},
	{name: "back/the reply comes twice", rule: "Bytes behind a whole answer belong to nobody (faults.md 37).", faults: []Fault{garbled(1, "there twice", doubled)}, run: answeredOnce},
	{name: "back/three replies are lost", rule: "What is said after several lost replies is true.", faults: []Fault{LoseReply(1), LoseReply(2), LoseReply(3)}, run: honest},
	{name: "back/every reply is lost", rule: "When no answer comes nobody can know how it ended, and the code says so (faults.md 32).", faults: []Fault{From(LoseReply(1))}, run: unknown},
	{name: "back/HTTP2 loses the reply", rule: "Over HTTP/2 a lost reply is asked for again under the same key (faults.md 39).", http2: true, faults: []Fault{LoseReply(1)}, run: answeredOnce},
	{name: "back/HTTP2 cuts the stream", rule: "Over HTTP/2 a stream that is reset before the reply leaves everything open (faults.md 39).", http2: true, faults: []Fault{At(testserver.AfterSettle, 1, testserver.Abort)}, run: answeredOnce},
	{name: "back/HTTP2 goes away", rule: "Over HTTP/2 a connection that ends by GOAWAY finishes what it has begun, and what it did not process is sent again (faults.md 40).", http2: true, slow: time.Second, faults: []Fault{goesAway(1)}, run: func(p *clientCase) {
		manyAtOnce(p)
		p.effects = 10
	}},
	{name: "back/HTTP2 cuts the body", rule: "Over HTTP/2 a body that is cut short is no answer (faults.md 34).", http2: true, faults: []Fault{At(testserver.InReply, 1, testserver.Cut(5))}, run: answeredOnce},
}

// overloaded are statuses that say nothing of the operation.
var overloaded = []int{http.StatusServiceUnavailable, http.StatusTooManyRequests, http.StatusBadGateway, http.StatusGatewayTimeout, http.StatusTooEarly}

// late are refusals that prove nothing once an attempt went unanswered.
var late = []int{http.StatusBadRequest, http.StatusUnauthorized, http.StatusForbidden, http.StatusNotFound, http.StatusRequestEntityTooLarge}

func statusRules() (rules []clientRule) {
	for _, code := range overloaded {
		rules = append(rules, clientRule{
			name: fmt.Sprintf("status/%d is tried again", code), rule: fmt.Sprintf("A %d that is not about the operation is followed by another attempt (faults.md 4, 15, 22).", code),
			faults: []Fault{Reply(1, code, 0)}, run: answeredOnce,
		})
	}
	for _, code := range late {
		rules = append(rules, clientRule{
			name: fmt.Sprintf("status/%d after a lost reply is no verdict", code), rule: fmt.Sprintf("A %d that follows an unanswered attempt does not prove that nothing happened (faults.md 49).", code),
			faults: []Fault{LoseReply(1), From(Reply(2, code, 0))}, run: unknown,
		})
	}
	return append(rules, pacingRules...)
}

var pacingRules = []clientRule{
	{name: "status/503 for ever", rule: "Attempts are limited and have a wait between them, however fast the server refuses.", faults: []Fault{From(Reply(1, 503, 0))}, run: func(p *clientCase) {
		neverApplied(p)
		p.paced(1, 10*time.Millisecond)
	}},
	{name: "status/Retry-After is obeyed", rule: "After Retry-After: 2 there is no attempt for two seconds (faults.md 15).", faults: []Fault{Reply(1, 503, 2*time.Second)}, run: func(p *clientCase) {
		answeredOnce(p)
		p.paced(1, 2*time.Second)
	}},
	{name: "status/Retry-After on 429 is obeyed", rule: "After Retry-After: 3 there is no attempt for three seconds (faults.md 15).", faults: []Fault{Reply(1, 429, 3*time.Second)}, run: func(p *clientCase) {
		answeredOnce(p)
		p.paced(1, 3*time.Second)
	}},
	{name: "status/Retry-After beyond the deadline", rule: "A wait that ends after the deadline is not begun, or ends with it.", within: time.Minute, faults: []Fault{From(Reply(1, 503, 10*time.Minute))}, run: neverApplied},
	{name: "status/Retry-After ten years away", rule: "A date far away, from a clock that is wrong, does not put the code to sleep (faults.md 54).", within: time.Minute, faults: []Fault{From(replying(1, 503, "", "Retry-After", "Fri, 01 Jan 2100 00:00:00 GMT"))}, run: neverApplied},
	{name: "status/Retry-After in the past", rule: "A date in the past is no reason to stop, nor to hurry (faults.md 54).", faults: []Fault{replying(1, 503, "", "Retry-After", "Fri, 01 Jan 1999 00:00:00 GMT")}, run: func(p *clientCase) {
		answeredOnce(p)
		p.paced(1, 10*time.Millisecond)
	}},
	{name: "status/503 for ever after a lost reply", rule: "When the reply was lost and no other came, nobody can know (faults.md 32).", faults: []Fault{LoseReply(1), From(Reply(2, 503, 0))}, run: unknown},
	{name: "status/a refusal of the API is final", rule: "A 404 to the first attempt is the API's answer, and is not asked for again.", faults: []Fault{From(Reply(1, 404, 0))}, run: func(p *clientCase) {
		neverApplied(p)
		p.atMost(1)
	}},
	{name: "status/a conflict of the API ends", rule: "A 409 that is about the API's own business is not polled for ever (faults.md 47).", faults: []Fault{From(Reply(1, 409, 0))}, run: func(p *clientCase) {
		neverApplied(p)
		p.atMost(20)
	}},
	{name: "status/a reused key is not tried again", rule: "A key that was used for another request is the caller's mistake: another attempt cannot help (faults.md 48).", run: func(p *clientCase) {
		p.world.Faults = append(p.world.Faults, From(refusing(1, &p.client.Rules, "key_reused")))
		if p.client.Rules.status("key_reused") < 0 {
			return
		}
		neverApplied(p)
		p.atMost(1)
	}},
	{name: "status/500 after the effect", rule: "A 500 does not prove that nothing happened (faults.md 19).", faults: []Fault{At(testserver.AfterEffect, 1, testserver.Status(500, 0))}, run: honest},
	{name: "status/307 keeps the key", rule: "A redirect that keeps the method keeps the key (faults.md 50).", faults: []Fault{replying(1, 307, "", "Location", "/elsewhere")}, run: func(p *clientCase) {
		p.perform(1)
		if keys := p.keys(); len(keys) > 1 {
			p.errorf("the hops went out under the keys %q", keys)
		}
	}},
	{name: "status/308 after a lost reply keeps the key", rule: "A redirect after a lost reply still belongs to the operation (faults.md 50).", faults: []Fault{LoseReply(1), replying(2, 308, "", "Location", "/elsewhere")}, run: honest},
}

// paced expects that the first waits are at least so long.
func (p *clientCase) paced(waits int, least time.Duration) {
	at := p.attempts()
	for i := 1; i < len(at) && i <= waits; i++ {
		if wait := at[i] - at[i-1]; wait < least {
			p.errorf("attempt %d came %v after the one before, which is less than %v", i+1, wait, least)
		}
	}
}

func (p *clientCase) atMost(attempts int) {
	if n := len(p.attempts()); n > attempts {
		p.errorf("%d attempts were made, where %d is all that can help", n, attempts)
	}
}

var runningRules = []clientRule{
	{name: "running/in progress is not the end", rule: "A 409 that says that the operation is being worked on is polled until its answer is there (faults.md 17).", slow: 5 * time.Second, faults: []Fault{overtaken(1, 10*time.Millisecond)}, run: answeredOnce},
	{name: "running/the wait is obeyed", rule: "Polls keep the distance that Retry-After asks for.", faults: []Fault{replying(1, 409, `{"code":"in_progress","status":409,"type":"about:blank","title":"in progress"}`, "Content-Type", "application/problem+json", "Retry-After", "3")}, run: func(p *clientCase) {
		if p.client.Rules.status("in_progress") != 409 || p.client.Rules.Body != nil {
			honest(p)
			return
		}
		answeredOnce(p)
		p.paced(1, 3*time.Second)
	}},
	{name: "running/in progress for ever", rule: "Polls end by number or deadline, and what is said then is true (faults.md 46).", slow: 2 * time.Hour, faults: []Fault{overtaken(1, 10*time.Millisecond)}, run: func(p *clientCase) {
		if b := p.perform(1); b.Outcome != semel.Unknown {
			p.errorf("the operation is called %v while it runs", b.Outcome)
		}
		p.atMost(1000)
	}},
	{name: "running/the server's owner dies before the effect", rule: "When the server's process dies after it has claimed the key, repeats under the same key end with one effect at most (faults.md 16, 18).", faults: []Fault{At(testserver.AfterClaim, 1, testserver.Crash)}, run: honest},
	{name: "running/the server dies before the claim", rule: "When the server dies before it has claimed the key, the operation is sent again (faults.md 16).", faults: []Fault{At(testserver.BeforeClaim, 1, testserver.Abort)}, run: answeredOnce},
	{name: "running/the server sleeps longer than its lease", rule: "When the work outlives everybody's patience, what is said of it is true (faults.md 20, 22, 45).", slow: 3 * time.Minute, after: 5 * time.Minute, run: honest},
	{name: "running/the server freezes", rule: "When the server's process freezes and another takes over, there is one effect (faults.md 20).", faults: []Fault{At(testserver.AfterClaim, 1, testserver.Freeze(40*time.Second))}, run: honest},
}

var callerRules = []clientRule{
	{name: "caller/cancels while it is under way", rule: "A caller who cancels gets the code back at once, and is not told that nothing happened (faults.md 21, 52).", slow: 10 * time.Second, after: time.Minute, run: func(p *clientCase) {
		p.cancelAfter(time.Second)
	}},
	{name: "caller/cancels while it waits", rule: "A cancelled wait ends at once, and what went unanswered stays unknown (faults.md 52).", faults: []Fault{LoseReply(1), From(Reply(2, 503, 30*time.Second))}, run: func(p *clientCase) {
		p.cancelAfter(5 * time.Second)
	}},
	{name: "caller/has cancelled before", rule: "A context that has ended already lets nothing out (faults.md 52).", run: func(p *clientCase) {
		ctx, cancel := context.WithCancel(p.ctx)
		cancel()
		p.performIn(ctx, 1, 0)
		if p.api.total() > 0 {
			p.errorf("it took effect")
		}
	}},
	{name: "caller/many at once, everything breaks", rule: "Many operations at once, each with its own troubles, have one effect each at most, and the truth is told of each.", after: 2 * time.Minute, faults: []Fault{Seed(1)}, run: manyAtOnce},
	{name: "caller/many at once, everything breaks again", rule: "Many operations at once, each with its own troubles, have one effect each at most, and the truth is told of each.", after: 2 * time.Minute, faults: []Fault{Seed(2)}, run: manyAtOnce},
	{name: "caller/many at once over HTTP2", rule: "Many operations on one HTTP/2 connection have one effect each at most, and the truth is told of each.", http2: true, after: 2 * time.Minute, faults: []Fault{Seed(3)}, run: manyAtOnce},
}

func manyAtOnce(p *clientCase) {
	var wg sync.WaitGroup
	for n := 1; n <= 10; n++ {
		wg.Go(func() { p.perform(n) })
	}
	wg.Wait()
}

// cancelAfter performs the operation and cancels it.
func (p *clientCase) cancelAfter(d time.Duration) {
	ctx, cancel := context.WithCancelCause(p.ctx)
	defer cancel(nil)
	stop := time.AfterFunc(d, func() { cancel(fmt.Errorf("the caller cancels: %w", context.Canceled)) })
	defer stop.Stop()
	if b := p.performIn(ctx, 1, d+time.Second); failed(b) {
		p.errorf("the operation is called %v, though it was under way", b.Outcome)
	}
}
