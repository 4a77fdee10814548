package semeltest

import (
	"bytes"
	"context"
	"fmt"
	"strings"
	"sync"
	"time"

	"github.com/semel-go/semel"
)

// A clientCase is a run of client code, and what is known of it at both ends.
type clientCase struct {
	*check
	client *Client
	world  *World
	api    *api
	rule   *clientRule

	mu      sync.Mutex
	beliefs map[int]Belief
	effects int             // that there must be, if positive
	bodies  map[uint64]bool // hashes of the requests' bodies, if they are known
	trips   int             // operations that were sent without asking what is believed of them
}

// perform lets client code perform an operation, within the rule's time, and notes what it says.
func (p *clientCase) perform(n int) Belief {
	within := p.rule.within
	if within == 0 {
		within = 10 * time.Minute
	}
	ctx, cancel := context.WithTimeout(p.ctx, within)
	defer cancel()
	return p.performIn(ctx, n, within)
}

func (p *clientCase) performIn(ctx context.Context, n int, within time.Duration) Belief {
	p.world.history.add(Event{Kind: onCall, Detail: fmt.Sprintf("operation %d", n)})
	begun := time.Now()
	b, _ := bounded(p.check, within, func() Belief { return p.client.Perform(performing(ctx, n), p.world, n) })
	took := time.Since(begun)
	text := b.Outcome.String()
	if b.Err != nil {
		text += ": " + b.Err.Error()
	}
	p.world.history.add(Event{Kind: onBelief, Detail: text})
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.beliefs == nil {
		p.beliefs = make(map[int]Belief)
	}
	p.beliefs[n] = b
	if took > within+time.Second {
		p.errorf("operation %d took %v, with a deadline of %v", n, took, within)
	}
	return b
}

func applied(b Belief) bool { return b.Outcome == semel.Applied || b.Outcome == semel.AppliedEarlier }

func failed(b Belief) bool { return b.Outcome == semel.NotSent || b.Outcome == semel.NotApplied }

// judge holds what client code says against what the server did.
func (p *clientCase) judge() {
	keys := p.keys()
	total := p.api.total()
	said, ops := 0, len(p.beliefs)+p.trips
	for n, b := range p.beliefs {
		if applied(b) {
			said++
		}
		effects, known := p.effectsOf(n)
		if failed(b) && effects > 0 {
			p.errorf("operation %d is called %v, and has had an effect", n, b.Outcome)
		}
		if applied(b) && effects == 0 && known {
			p.errorf("operation %d is called %v, and has had no effect", n, b.Outcome)
		}
		if b.Outcome == semel.NotSent && len(p.beliefs) == 1 && p.world.History().count(onSend) > 0 {
			p.errorf("operation %d is called not sent, and something was sent", n)
		}
		p.judgeAnswer(n, b)
	}
	switch {
	case total > ops:
		p.errorf("%d operations have had %d effects", ops, total)
	case total < p.effects:
		p.errorf("there were %d effects of %d", total, p.effects)
	case said > total:
		p.errorf("%d operations are said to be applied, and there were %d effects", said, total)
	}
	if len(keys) > ops {
		p.errorf("%d operations went out under %d keys: %q", ops, len(keys), keys)
	}
	p.judgeBodies()
}

// effectsOf counts the effects of an operation; known says whether they can be told from those of others.
func (p *clientCase) effectsOf(n int) (effects int, known bool) {
	if len(p.beliefs) == 1 {
		return p.api.total(), true
	}
	p.world.mu.Lock()
	key, known := p.world.performed[n]
	p.world.mu.Unlock()
	p.api.mu.Lock()
	defer p.api.mu.Unlock()
	return p.api.effects[strings.Trim(key, `"`)], known
}

// judgeAnswer compares the answer that was taken with what the server said.
func (p *clientCase) judgeAnswer(n int, b Belief) {
	if b.Answer == nil || !applied(b) {
		return
	}
	p.api.mu.Lock()
	defer p.api.mu.Unlock()
	for _, a := range p.api.answers {
		if bytes.Equal(a, b.Answer) {
			return
		}
	}
	p.errorf("operation %d took %q for its answer, which the server never gave", n, b.Answer)
}

// expect notes a body that is sent.
func (p *clientCase) expect(body []byte) {
	if p.bodies == nil {
		p.bodies = make(map[uint64]bool)
	}
	p.bodies[hash(body)] = true
}

// judgeBodies expects that all requests under one key had the same body.
func (p *clientCase) judgeBodies() {
	p.api.mu.Lock()
	defer p.api.mu.Unlock()
	for key, sums := range p.api.bodies {
		if len(sums) > 1 {
			p.errorf("under key %s %d different bodies have arrived", brief(key), len(sums))
		}
		for sum := range sums {
			if p.bodies != nil && !p.bodies[sum] {
				p.errorf("under key %s a body has arrived that the caller has not sent", brief(key))
			}
		}
	}
}

// keys returns the keys of the attempts, "" among them if one had none. Requests without an effect need none.
func (p *clientCase) keys() (keys []string) {
	seen := make(map[string]bool)
	for _, e := range p.world.History().Events() {
		if e.Kind == onAttempt && !safe(e.method) && !seen[e.Key] {
			seen[e.Key] = true
			keys = append(keys, e.Key)
		}
	}
	return keys
}

// at returns the times of the attempts.
func (p *clientCase) attempts() (at []time.Duration) {
	for _, e := range p.world.History().Events() {
		if e.Kind == onAttempt {
			at = append(at, e.At)
		}
	}
	return at
}

// answered performs the operation and expects that it ends with its answer.
func answeredOnce(p *clientCase) {
	b := p.perform(1)
	if !applied(b) {
		p.errorf("the operation is called %v, though its answer could be had", b.Outcome)
	}
	p.effects = 1
}

// honest performs the operation; whatever is said of it must be true.
func honest(p *clientCase) { p.perform(1) }

// unknown performs the operation and expects that nobody claims to know how it ended.
func unknown(p *clientCase) {
	if b := p.perform(1); b.Outcome != semel.Unknown {
		p.errorf("the operation is called %v, though nobody can know", b.Outcome)
	}
}

// neverApplied performs the operation, which nothing can come of.
func neverApplied(p *clientCase) {
	if b := p.perform(1); applied(b) {
		p.errorf("the operation is called %v, and was not", b.Outcome)
	}
	if n := len(p.attempts()); n > 100 {
		p.errorf("%d attempts were made", n)
	}
}
