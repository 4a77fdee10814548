package semeltest

import (
	"bytes"
	"context"
	"crypto/rand"
	"encoding/json"
	"fmt"
	"hash/fnv"
	"io"
	"net/http"
	"strings"
	"sync"
	"time"

	"github.com/semel-go/semel/testserver"
)

// An api is the server that client code is run against: a guard before a handler whose runs are its effects, spelled by
// the rules.
type api struct {
	world *World
	rules *Rules
	guard testserver.Guard
	inner http.Handler  // the API without idempotency; nil: the default
	slow  time.Duration // that its work takes

	mu      sync.Mutex
	effects map[string]int            // by key
	answers map[string][]byte         // by key: of the first effect
	bodies  map[string]map[uint64]int // by key: the bodies that arrived whole
}

func newAPI(w *World, c *Client, slow time.Duration) *api {
	a := &api{world: w, rules: &c.Rules, inner: c.Handler, slow: slow,
		effects: make(map[string]int), answers: make(map[string][]byte), bodies: make(map[string]map[uint64]int)}
	a.guard = testserver.Guard{
		Next: http.HandlerFunc(a.work), Store: new(testserver.MemStore), Scope: testserver.GlobalScope, Effect: testserver.Marked,
		Header: c.Rules.Header, Fault: w.Visit, Optional: true, Deadline: -1,
	}
	return a
}

func (a *api) key(r *http.Request) string { return strings.Trim(r.Header.Get(a.rules.header()), `"`) }

// ServeHTTP notes what arrives, and spells what the guard says.
func (a *api) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	key := a.key(r)
	if r.Body != nil {
		r.Body = &arriving{ReadCloser: r.Body, whole: func(sum uint64) { a.arrived(key, sum) }}
	}
	a.guard.ServeHTTP(&spelling{ResponseWriter: w, rules: a.rules}, r)
}

func (a *api) arrived(key string, sum uint64) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.bodies[key] == nil {
		a.bodies[key] = make(map[uint64]int)
	}
	a.bodies[key][sum]++
}

// work is the effect.
func (a *api) work(w http.ResponseWriter, r *http.Request) {
	if a.slow > 0 && r.Method != http.MethodGet {
		done := time.NewTimer(a.slow)
		defer done.Stop()
		select {
		case <-done.C:
		case <-a.world.closed: // nobody is interested any more
			panic(http.ErrAbortHandler)
		}
	}
	if r.Method == http.MethodGet || r.Method == http.MethodHead {
		a.serve(w, r)
		return
	}
	if r.Header.Get(a.rules.header()) != "" && testserver.EffectStarting(r.Context()) != nil {
		panic(http.ErrAbortHandler)
	}
	kept := &copying{ResponseWriter: w}
	a.serve(kept, r)
	if kept.code >= 400 {
		return
	}
	key := a.key(r)
	a.world.Effect(r)
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.effects[key]++; a.effects[key] == 1 {
		a.answers[key] = kept.body.Bytes()
	}
}

func (a *api) serve(w http.ResponseWriter, r *http.Request) {
	if a.inner != nil {
		a.inner.ServeHTTP(w, r)
		return
	}
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(http.StatusCreated)
	fmt.Fprintf(w, "{\"id\":%q}\n", rand.Text())
}

func (a *api) total() (n int) {
	a.mu.Lock()
	defer a.mu.Unlock()
	for _, k := range a.effects {
		n += k
	}
	return n
}

// An arriving body reports its hash when it has been read whole.
type arriving struct {
	io.ReadCloser
	sum   []byte
	done  bool
	whole func(uint64)
}

func (b *arriving) Read(p []byte) (int, error) {
	n, err := b.ReadCloser.Read(p)
	b.sum = append(b.sum, p[:n]...)
	if err == io.EOF && !b.done {
		b.done = true
		b.whole(hash(b.sum))
	}
	return n, err
}

func hash(b []byte) uint64 {
	h := fnv.New64a()
	h.Write(b)
	return h.Sum64()
}

// A copying writer keeps what passes.
type copying struct {
	http.ResponseWriter
	code int
	body bytes.Buffer
}

func (c *copying) WriteHeader(code int) {
	if c.code == 0 {
		c.code = code
	}
	c.ResponseWriter.WriteHeader(code)
}

func (c *copying) Write(p []byte) (int, error) {
	if c.code == 0 {
		c.code = http.StatusOK
	}
	c.body.Write(p)
	return c.ResponseWriter.Write(p)
}

func (c *copying) Unwrap() http.ResponseWriter { return c.ResponseWriter }

// A spelling writer words the guard's refusals as the rules have it.
type spelling struct {
	http.ResponseWriter
	rules  *Rules
	status int // of a refusal that is held back until its body tells the code
}

func (s *spelling) Unwrap() http.ResponseWriter { return s.ResponseWriter }

func (s *spelling) WriteHeader(status int) {
	h := s.Header()
	if h.Get("Content-Type") == "application/problem+json" && h.Get("Cache-Control") == "no-store" {
		s.status = status
		return
	}
	if name, value := s.rules.marker(); h.Get("Idempotent-Replayed") != "" {
		h.Del("Idempotent-Replayed")
		if name != "" {
			h.Set(name, value)
		}
	}
	s.ResponseWriter.WriteHeader(status)
}

func (s *spelling) Write(p []byte) (int, error) {
	if s.status == 0 {
		return s.ResponseWriter.Write(p)
	}
	var problem struct{ Code string }
	_ = json.Unmarshal(p, &problem) // the guard writes a problem at once
	status, body := s.status, p
	if own, ok := s.rules.Status[problem.Code]; ok && own > 0 {
		status = own
	}
	s.status = 0
	s.Header().Del("Content-Length")
	if s.rules.Body != nil {
		kind, text := s.rules.Body(problem.Code)
		s.Header().Set("Content-Type", kind)
		body = []byte(text)
	}
	s.ResponseWriter.WriteHeader(status)
	_, err := s.ResponseWriter.Write(body)
	return len(p), err
}

type performKey struct{}

// performing marks the context of an operation's calls, so that attempts can be told apart by it.
func performing(ctx context.Context, n int) context.Context {
	return context.WithValue(ctx, performKey{}, n)
}
