package semeltest

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/semel-go/semel/testserver"
)

func hasPoints(s *Server) bool { return s.Points != nil }

var allPoints = []testserver.Point{testserver.BeforeClaim, testserver.AfterClaim, testserver.AfterEffect, testserver.AfterSettle, testserver.InReply}

// rows of faults.md, by the point of a crash.
var crashRows = map[testserver.Point]string{
	testserver.BeforeClaim: "16", testserver.AfterClaim: "18", testserver.AfterEffect: "23, 24", testserver.AfterSettle: "32", testserver.InReply: "34"}

func crashRules() (rules []serverRule) {
	for _, at := range allPoints {
		for what, do := range map[string]testserver.Action{"the server dies": testserver.Crash, "the connection is cut": testserver.Abort} {
			rules = append(rules, serverRule{
				name: fmt.Sprintf("point/%s at %s", what, pointName(at)), needs: hasPoints, faults: []Fault{At(at, 1, do)},
				rule: fmt.Sprintf("When %s at %s the operation has one effect at most; repeats end with its answer, or are told that nobody knows (faults.md %s).", what, pointName(at), crashRows[at]),
				run:  func(p *serverCase) { p.settledOrUnknown(p.operation(), p.newKey()) },
			})
		}
	}
	slices.SortFunc(rules, func(a, b serverRule) int { return strings.Compare(a.name, b.name) })
	return append(rules, pointRules...)
}

var pointRules = []serverRule{
	{name: "point/503 before the claim leaves nothing", rule: "A request that was shed before the claim leaves no claim behind: the next one runs (faults.md 15).", needs: hasPoints, faults: []Fault{At(testserver.BeforeClaim, 1, testserver.Status(503, time.Second))}, run: func(p *serverCase) { // servers.md B26
		n, key := p.operation(), p.newKey()
		p.send(n, key)
		if h := p.send(n, key); !h.success() {
			p.errorf("the next request is answered %v", h)
		}
		p.mustHave(n, 1)
	}},
	{name: "point/500 before the effect leaves no claim", rule: "After a failure before the effect the key is free or the failure is stored; it is not in progress (faults.md 19).", needs: hasPoints, faults: []Fault{At(testserver.AfterClaim, 1, testserver.Status(500, 0))}, run: func(p *serverCase) { // servers.md B20, B40
		n, key := p.operation(), p.newKey()
		p.send(n, key)
		if h := p.send(n, key); h.err != nil || h.status == p.server.Rules.status("in_progress") && h.header.Get("Retry-After") != "" {
			p.errorf("the next request is answered %v", h)
		}
	}},
	{name: "point/500 after the effect is not run again", rule: "A failure after the effect does not lead to a second one (faults.md 19).", needs: hasPoints, faults: []Fault{At(testserver.AfterEffect, 1, testserver.Status(500, 0))}, run: func(p *serverCase) { // servers.md B21
		n, key := p.operation(), p.newKey()
		for range 3 {
			p.send(n, key)
			_ = pause(p.ctx, p.sim(time.Minute, 50*time.Millisecond))
		}
		if p.effects(n) > 1 {
			p.errorf("the operation has had %d effects", p.effects(n))
		}
	}},
	{name: "point/the client leaves during the work", rule: "A client that leaves while the server works does not leave the key behind (faults.md 21).", needs: hasPoints, faults: []Fault{At(testserver.AfterEffect, 1, testserver.Sleep(time.Second))}, run: func(p *serverCase) { // servers.md B13
		n, key := p.operation(), p.newKey()
		ctx, cancel := context.WithTimeout(p.ctx, 100*time.Millisecond)
		defer cancel()
		p.sendIn(ctx, n, key)
		p.settled(n, key)
	}},
	{name: "point/a duplicate of one in progress", rule: "While a request is being worked on, another under its key is told so or waits; it gets no other answer, and no second effect (faults.md 17).", needs: hasPoints, faults: []Fault{At(testserver.AfterClaim, 1, testserver.Sleep(2*time.Second))}, run: func(p *serverCase) { // servers.md B23
		n, key := p.operation(), p.newKey()
		p.during(n, key, func() {
			if h := p.send(n, key); !h.success() && (h.err != nil || h.status != p.server.Rules.status("in_progress")) {
				p.errorf("the duplicate is answered %v", h)
			}
		})
		p.settled(n, key)
	}},
	{name: "point/another request while one is in progress", rule: "While a request is being worked on, another one under its key is refused (faults.md 48).", needs: hasPoints, faults: []Fault{At(testserver.AfterClaim, 1, testserver.Sleep(2*time.Second))}, run: func(p *serverCase) {
		n, other, key := p.operation(), p.operation(), p.newKey()
		p.during(n, key, func() { p.sendAlien(other, key) })
		p.settled(n, key)
		p.mustHave(other, 0)
	}},
}

// during sends a request, and does something while the server works on it.
func (p *serverCase) during(n int, key string, do func()) {
	var wg sync.WaitGroup
	wg.Go(func() { p.send(n, key) })
	_ = pause(p.ctx, p.sim(time.Second, 300*time.Millisecond))
	do()
	wg.Wait()
}

func hasLease(s *Server) bool {
	return s.Points != nil && s.Lease > 0 && (s.simulated() || s.Lease <= 5*time.Second)
}

var leaseRules = []serverRule{
	{name: "lease/work that outlives it", rule: "Work that takes three leases, by a server that lives, is not taken over (faults.md 20).", needs: hasLease, run: func(p *serverCase) { // servers.md B8, B19
		p.world.Faults = []Fault{At(testserver.AfterClaim, 1, testserver.Sleep(3*p.server.Lease))}
		p.overlap()
	}},
	{name: "lease/the server freezes before the effect", rule: "When a server's process freezes beyond its lease and wakes up again, there is one effect at most (faults.md 20).", needs: hasLease, run: func(p *serverCase) { // servers.md B9
		p.world.Faults = []Fault{At(testserver.AfterClaim, 1, testserver.Freeze(2*p.server.Lease))}
		p.overlap()
	}},
	{name: "lease/the server freezes after the effect", rule: "A server that wakes up after its lease does not spoil what its successor has stored (faults.md 20).", needs: hasLease, run: func(p *serverCase) { // servers.md B9, B10
		p.world.Faults = []Fault{At(testserver.AfterEffect, 1, testserver.Freeze(2*p.server.Lease))}
		p.overlap()
	}},
}

// overlap repeats an operation while its first request is under way.
func (p *serverCase) overlap() {
	n, key := p.operation(), p.newKey()
	var wg sync.WaitGroup
	wg.Go(func() { p.send(n, key) })
	_ = pause(p.ctx, p.sim(time.Second, 50*time.Millisecond))
	p.settle(n, key)
	wg.Wait()
	p.settledOrUnknown(n, key)
}

func stormRules() (rules []serverRule) {
	for seed := range uint64(5) {
		rules = append(rules, serverRule{
			name: fmt.Sprintf("storm/seed %d", seed), faults: []Fault{Seed(seed)},
			rule: "Many callers of many operations, each with troubles of its own: one effect for each operation, and one answer.",
			run: func(p *serverCase) {
				var wg sync.WaitGroup
				type op struct {
					n   int
					key string
				}
				var ops []op
				for range 5 {
					o := op{p.operation(), p.newKey()}
					ops = append(ops, o)
					for caller := range 3 {
						wg.Go(func() {
							time.Sleep(time.Duration(caller/2) * p.sim(700*time.Millisecond, 10*time.Millisecond))
							p.settle(o.n, o.key)
						})
					}
				}
				wg.Wait()
				for _, o := range ops {
					p.settled(o.n, o.key)
				}
			},
		})
	}
	return rules
}
