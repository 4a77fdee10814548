package testserver

import (
	"errors"
	"fmt"
	"io"
	"net/http"
	"slices"
	"sync"
	"time"
)

// A Guard is middleware that lets each idempotency key have its effect at most once. It goes behind authentication, rate
// limits and validation, which must not use up keys, and inside compression. Next, Store and Scope must be set; the other
// fields have useful zero values. The fields must not change once it is in use, and it must not be copied.
//
// The handler runs on when its client is gone: its context ends with the Deadline, or with the cause [ErrLeaseLost] once
// somebody else may run the operation. Its reply is held back until it is stored.
//
// A Guard is safe for concurrent use. While it holds claims, one goroutine of its own renews them. [Guard.Drain] waits for
// what is under way.
type Guard struct {
	Next  http.Handler
	Store Store // whose methods must return once their context ends

	// Scope says whose key it is: the principal, not its credential, and best the operation as well. An error or an empty
	// scope refuses the request. Use [GlobalScope] where all clients are one.
	Scope func(*http.Request) (string, error)

	Effect   Effect   // what Next does
	Header   string   // carries the key; if empty, Idempotency-Key
	Methods  []string // that take a key; if nil, POST and PATCH. Other requests pass through
	Optional bool     // requests without a key pass through, unprotected, instead of being refused

	Lease               time.Duration // after which a silent owner counts as dead, not how long it may work; if 0, 15s
	Retention           time.Duration // of answers, from the first claim; if 0, 72h
	DownstreamRetention time.Duration // for Keyed: how long the downstream keeps its keys; if 0, 24h
	Deadline            time.Duration // of the handler; if 0, one minute; if negative, none

	MaxBody    int64         // of a request; if 0, 1 MiB
	MaxReply   int64         // that is stored; if 0, 1 MiB. A larger one leaves a tombstone
	MaxWait    time.Duration // that "Prefer: wait=N" may ask for; if 0, 10s; if negative, nobody waits
	MaxWaiters int           // per key; if 0, 4

	// Recover, if not nil, is asked about an operation whose outcome is unknown, before a client is told so. It returns
	// the operation's answer if it has happened, [ErrNotDone] if it provably has not, or nil to leave it unknown. See
	// [Guard.Resolve] for what it may say. It may run more than once at the same time.
	Recover func(*http.Request, Record) (*Answer, error)

	// Fault, if not nil, is visited at every [Point]. For tests.
	Fault Fault

	mu       sync.Mutex
	runs     map[*run]struct{} // claims that are renewed
	stop     chan struct{}     // ends the heartbeat; nil while there is none
	active   int               // attempts and settlements under way
	idle     chan struct{}     // closed when active falls to 0; nil if nobody waits
	waiters  map[ID]int
	orphans  []Claim
	attempts map[ID]int // counted for Fault alone
}

// A ConfigError names a field of a [Guard] that makes it unusable.
type ConfigError struct{ Field string }

func (e *ConfigError) Error() string {
	return fmt.Sprintf("testserver: the field %s of the Guard is missing or invalid; nothing was run", e.Field)
}

// GlobalScope is the Scope of servers all clients of which are one principal.
func GlobalScope(*http.Request) (string, error) { return "global", nil }

// Check returns a *[ConfigError] if the guard cannot be used. Until that is mended every request that it should guard is
// answered with 500.
func (g *Guard) Check() error {
	_, transactor := g.Store.(Transactor)
	for _, f := range []struct {
		name string
		bad  bool
	}{
		{"Next", g.Next == nil},
		{"Store", g.Store == nil || g.Effect == Transactional && !transactor},
		{"Scope", g.Scope == nil},
		{"Effect", g.Effect < Once || g.Effect > Transactional},
		{"Lease", g.Lease < 0},
		{"Retention", g.Retention < 0},
		{"DownstreamRetention", g.DownstreamRetention < 0},
		{"MaxBody", g.MaxBody < 0},
		{"MaxReply", g.MaxReply < 0},
		{"MaxWaiters", g.MaxWaiters < 0},
	} {
		if f.bad {
			return &ConfigError{Field: f.name}
		}
	}
	return nil
}

// ServeHTTP answers with what Next answers, or has answered before under the same key, or with a problem (RFC 9457) of
// docs/problems.md.
func (g *Guard) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if err := g.Check(); err != nil {
		writeAnswer(w, misconfigured.because(err.Error()).answer())
		return
	}
	if !slices.Contains(g.methods(), r.Method) {
		g.Next.ServeHTTP(w, r)
		return
	}
	key, err := requestKey(r.Header, g.header())
	if err == errNoKey && g.Optional {
		g.Next.ServeHTTP(w, withoutKey(r))
		return
	}
	a, p := g.admit(r, key, err)
	if p != nil {
		writeAnswer(w, p.answer())
		return
	}
	a.w = w
	g.enter()
	defer g.leave()
	a.serve()
}

// admit reads the request whole, or says why it claims nothing.
func (g *Guard) admit(r *http.Request, key string, keyErr error) (*attempt, *problem) {
	refuse := func(p problem, detail string) (*attempt, *problem) {
		p = p.because(detail)
		return nil, &p
	}
	if keyErr == errNoKey {
		return refuse(keyMissing, "Send a fresh unique key in the "+g.header()+" field, and the same one with every repeat.")
	}
	if keyErr != nil {
		return refuse(keyInvalid, keyErr.Error())
	}
	scope, err := g.Scope(r)
	if err != nil || scope == "" {
		return refuse(scopeRefused, "Keys are taken from known principals only.")
	}
	limit := orDefault(g.MaxBody, 1<<20)
	if r.ContentLength > limit {
		return refuse(bodyTooLarge, fmt.Sprintf("At most %d bytes are taken.", limit))
	}
	var body []byte
	if r.Body != nil {
		body, err = io.ReadAll(io.LimitReader(r.Body, limit+1))
	}
	var cut *http.MaxBytesError
	switch {
	case errors.As(err, &cut):
		return refuse(bodyTooLarge, fmt.Sprintf("At most %d bytes are taken.", cut.Limit))
	case err != nil || r.ContentLength >= 0 && int64(len(body)) < r.ContentLength:
		return refuse(bodyIncomplete, "Nothing was claimed under the key.")
	case int64(len(body)) > limit:
		return refuse(bodyTooLarge, fmt.Sprintf("At most %d bytes are taken.", limit))
	}
	return &attempt{g: g, r: r, body: body, claim: g.newClaim(ID{scope, key}, fingerprintOf(r, body))}, nil
}

func (g *Guard) newClaim(id ID, fp Fingerprint) Claim {
	c := Claim{ID: id, Fingerprint: fp, Owner: NewOwner(), Lease: g.lease(), Retention: orDefault(g.Retention, 72*time.Hour)}
	switch g.Effect {
	case Once:
		c.Started = true
	case Keyed: // the last run must still end within the downstream's retention
		c.RerunFor = max(orDefault(g.DownstreamRetention, 24*time.Hour)-max(g.deadline(), 0), 1)
	}
	return c
}

func (g *Guard) methods() []string {
	if g.Methods == nil {
		return []string{http.MethodPost, http.MethodPatch}
	}
	return g.Methods
}

func (g *Guard) header() string          { return orDefault(g.Header, "Idempotency-Key") }
func (g *Guard) lease() time.Duration    { return orDefault(g.Lease, 15*time.Second) }
func (g *Guard) deadline() time.Duration { return orDefault(g.Deadline, time.Minute) }

func orDefault[T comparable](v, def T) T {
	var zero T
	if v == zero {
		return def
	}
	return v
}
