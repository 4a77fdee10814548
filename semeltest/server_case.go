package semeltest

import (
	"bytes"
	"context"
	"crypto/rand"
	"encoding/binary"
	"fmt"
	"io"
	"net/http"
	"strconv"
	"sync"
	"time"
)

// A serverCase is a server, and what was heard of it.
type serverCase struct {
	*check
	server *Server
	world  *World
	total  int64

	mu      sync.Mutex
	before  map[int]int             // effects that operations had before
	keys    map[int]map[string]bool // that operations were sent under
	answers map[string]*heard       // by key: the first success
	broken  []string                // found while several goroutines were at it
}

// A heard reply was read to its end, or has an error.
type heard struct {
	status int
	header http.Header
	length int64
	coded  bool // in chunks
	body   []byte
	err    error
}

func (h *heard) success() bool { return h.err == nil && h.status >= 200 && h.status < 300 }

func (h *heard) String() string {
	if h.err != nil {
		return h.err.Error()
	}
	return fmt.Sprintf("%d %.80q", h.status, h.body)
}

// newKey is a key that nobody has used.
func (p *serverCase) newKey() string { return "semeltest-" + randomName() }

// operation is a number that nobody has used.
func (p *serverCase) operation() int {
	var b [4]byte
	_, _ = rand.Read(b[:]) // never fails
	n := int(binary.BigEndian.Uint32(b[:]) >> 1)
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.before == nil {
		p.before, p.keys, p.answers = make(map[int]int), make(map[int]map[string]bool), make(map[string]*heard)
	}
	p.keys[n] = make(map[string]bool)
	if p.server.Effects != nil {
		p.before[n] = p.server.Effects(n)
	}
	return n
}

// effects counts those of the operation since the case has begun; 0 if they cannot be counted.
func (p *serverCase) effects(n int) int {
	if p.server.Effects == nil {
		return 0
	}
	p.mu.Lock()
	before := p.before[n]
	p.mu.Unlock()
	return p.server.Effects(n) - before
}

// mustHave expects so many effects, if they can be counted.
func (p *serverCase) mustHave(n, want int) {
	if p.server.Effects == nil {
		return
	}
	if got := p.effects(n); got != want {
		p.errorf("the operation has had %d effects, not %d", got, want)
	}
}

// sim returns one of two times: in simulated time, or in real time.
func (p *serverCase) sim(simulated, real time.Duration) time.Duration {
	if p.server.simulated() {
		return simulated
	}
	return real
}

// send makes one attempt.
func (p *serverCase) send(n int, key string, change ...func(*http.Request)) *heard {
	return p.sendIn(p.ctx, n, key, change...)
}

func (p *serverCase) sendIn(ctx context.Context, n int, key string, change ...func(*http.Request)) *heard {
	ctx, cancel := context.WithTimeout(ctx, p.sim(10*time.Minute, time.Minute))
	defer cancel()
	req := p.request(ctx, n, key)
	for _, f := range change {
		f(req)
	}
	req.GetBody = nil // so that net/http sends it once
	resp, err := p.world.RoundTrip(req)
	if err != nil {
		return &heard{err: err}
	}
	defer resp.Body.Close()
	h := &heard{status: resp.StatusCode, header: resp.Header, length: resp.ContentLength, coded: len(resp.TransferEncoding) > 0 || resp.ProtoMajor > 1}
	h.body, h.err = io.ReadAll(resp.Body)
	p.note(n, key, h)
	return h
}

// note compares a success with the first one of its key.
func (p *serverCase) note(n int, key string, h *heard) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if key == "" {
		return
	}
	p.keys[n][key] = true
	if !h.success() {
		return
	}
	first := p.answers[key]
	if first == nil {
		p.answers[key] = h
		return
	}
	if first.status != h.status || !bytes.Equal(first.body, h.body) {
		p.broken = append(p.broken, fmt.Sprintf("under one key two different answers came: %v and %v", first, h))
	}
}

// settle repeats the operation under its key until it is answered with success, for as long as a lease and a bit more.
func (p *serverCase) settle(n int, key string, change ...func(*http.Request)) *heard {
	end := time.Now().Add(p.sim(3*p.server.Lease+2*time.Minute, 2*p.server.Lease+2*time.Second))
	for {
		h := p.send(n, key, change...)
		wait := p.sim(time.Second, 20*time.Millisecond)
		if h.err == nil {
			if s, err := strconv.Atoi(h.header.Get("Retry-After")); err == nil && p.server.simulated() {
				wait = max(wait, time.Duration(s)*time.Second)
			}
		}
		if h.success() || time.Now().Add(wait).After(end) {
			return h
		}
		if pause(p.ctx, wait) != nil {
			return h
		}
	}
}

// settled expects that the operation is answered in the end, with one effect.
func (p *serverCase) settled(n int, key string) *heard {
	h := p.settle(n, key)
	if !h.success() {
		p.errorf("the operation is never answered: %v", h)
		return h
	}
	p.mustHave(n, 1)
	return h
}

// settledOrUnknown expects that, or that the server says that it does not know.
func (p *serverCase) settledOrUnknown(n int, key string) *heard {
	h := p.settle(n, key)
	switch unknown := p.server.Rules.status("outcome_unknown"); {
	case h.success():
		p.mustHave(n, 1)
	case h.err != nil || h.status != unknown && h.status < 500 || h.header.Get("Retry-After") != "":
		p.errorf("the operation is neither answered nor called unknown: %v", h)
	}
	if p.effects(n) > 1 {
		p.errorf("the operation has had %d effects", p.effects(n))
	}
	return h
}

// judge checks what holds in every case.
func (p *serverCase) judge() {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, b := range p.broken {
		p.errorf("%s", b)
	}
	if p.server.Effects != nil {
		for n, keys := range p.keys {
			if got := p.server.Effects(n) - p.before[n]; got > len(keys) {
				p.errorf("an operation that was sent under %d keys has had %d effects", len(keys), got)
			}
		}
	}
	if p.server.Total != nil {
		if now := p.server.Total(); now != p.total {
			p.errorf("the total was %d, and is %d", p.total, now)
		}
	}
}

// marked reports whether a reply is marked as stored.
func (p *serverCase) marked(h *heard) bool {
	name, value := p.server.Rules.marker()
	return name != "" && h.err == nil && h.header.Get(name) == value
}
