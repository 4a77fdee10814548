package semel

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"net/http"
	"sync"
	"time"
)

// An Operation is what the caller wants done once: a key, and the history of every attempt made under it, over redirects,
// calls and restarts. Put it into a request's context with [Operation.Context]; save it with [json.Marshal] before the
// request is sent, and it can be resumed by another process. It is safe for concurrent use: its history merges. The zero
// Operation gets its key when it is first used.
type Operation struct {
	mu      sync.Mutex
	key     string
	begun   time.Time
	bound   *binding // nil until the first request
	history history
	failed  *Error // how the last call ended, if without a reply

	first   *http.Request // that made it come to be, if nobody bound it
	private bool          // within a RoundTrip that has not returned: nobody else can see it
}

// lock and unlock guard the operation as long as anybody else can see it.
func (op *Operation) lock() {
	if !op.private {
		op.mu.Lock()
	}
}

func (op *Operation) unlock() {
	if !op.private {
		op.mu.Unlock()
	}
}

// show binds an operation that nobody has bound to the request that made it, before the caller sees it. Most are never seen.
// A long body is not read for that: then only method and URL are known.
func (op *Operation) show() {
	op.lock()
	first := op.first
	if op.bound != nil {
		first = nil
	}
	op.unlock()
	if first == nil {
		return
	}
	b := &binding{method: methodOf(first), url: shortURL(first.URL)}
	if !hasBody(first) || first.ContentLength > 0 && first.ContentLength <= smallReply {
		if whole, err := bindingOf(first); err == nil {
			b = whole
		}
	}
	op.lock()
	defer op.unlock()
	if op.bound == nil {
		op.bound = b
	}
}

// NewOperation returns an operation with this key; if it is empty, with a fresh [UUIDv4]. A key that the caller brings
// counts as one under which another process may have sent something: only a reply that is tied to the key settles it, and
// its outcome is never [NotSent].
func NewOperation(key string) *Operation {
	op := new(Operation)
	if key == "" {
		op.mint()
	} else {
		op.bring(key)
	}
	return op
}

// WithKey returns a context that gives its request this key. The key names one operation: a request with another method,
// URL or body under it is refused with [KeyReused], unsent, because a context flows to every request below it.
func WithKey(ctx context.Context, key string) context.Context {
	op := new(Operation)
	op.bring(key)
	return op.Context(ctx)
}

type operationKey struct{}

// innermostKey asks a context for the innermost that is of this package, which spares most requests all further questions.
type innermostKey struct{}

// An operationContext gives its requests an operation.
type operationContext struct {
	context.Context
	op *Operation
}

func (c *operationContext) Value(key any) any {
	switch key {
	case operationKey{}:
		return c.op
	case innermostKey{}:
		return c
	}
	return c.Context.Value(key)
}

// Context returns a context that makes a request part of this operation.
func (op *Operation) Context(ctx context.Context) context.Context {
	if ctx == nil {
		panic("semel: Operation.Context: the context is nil")
	}
	return &operationContext{ctx, op}
}

func operationIn(ctx context.Context) *Operation {
	op, _ := ctx.Value(operationKey{}).(*Operation)
	return op
}

// Bind fixes the operation to the request before anything is sent: its key, the time from which the key's life counts, and
// the fingerprint of method, URL and body. The body must be repeatable, which [http.NewRequest] sees to for bytes and
// strings; it is read and not kept, so that keeping it is up to the caller. A second Bind must bring the same request.
func (op *Operation) Bind(req *http.Request) error {
	if op == nil {
		return refusal(new(Operation), 0, errors.New("semel: Bind: the operation is nil"))
	}
	if err := sendable(req); err != nil {
		return refusal(op, 0, err)
	}
	if hasBody(req) && req.GetBody == nil {
		return refusal(op, 0, fmt.Errorf("%w: the request has no GetBody, so nobody can check later that it is the same", ErrBody))
	}
	return op.bind(req)
}

// Key returns the operation's key; it is empty for an operation that has none yet, or whose API takes none.
func (op *Operation) Key() string {
	if op == nil {
		return ""
	}
	op.lock()
	defer op.unlock()
	return op.key
}

// Outcome returns what may be believed of the operation now.
func (op *Operation) Outcome() Outcome {
	if op == nil {
		return Unknown
	}
	op.lock()
	defer op.unlock()
	return op.history.outcome()
}

// bring gives the operation a key that was not minted here.
func (op *Operation) bring(key string) {
	op.key = key
	op.history.doubt = true
	op.history.foreign = true
}

func (op *Operation) mint() {
	op.key, _ = UUIDv4(nil) // cannot fail
}

// saved is an operation at rest.
type saved struct {
	Key         string    `json:"key"`
	Begun       time.Time `json:"begun,omitzero"`
	Method      string    `json:"method,omitempty"`
	URL         string    `json:"url,omitempty"`
	Fingerprint []byte    `json:"fingerprint,omitempty"`
	Sends       int       `json:"sends"`
	Outcome     string    `json:"outcome"`
}

// MarshalJSON saves the operation: its key, beginning, fingerprint and what is known of it, and neither body nor query.
func (op *Operation) MarshalJSON() ([]byte, error) {
	if op == nil {
		return []byte("null"), nil
	}
	op.mu.Lock()
	defer op.mu.Unlock()
	if op.begun.IsZero() {
		op.begun = time.Now() // whoever restores it must not count from then
	}
	s := saved{Key: op.key, Begun: op.begun, Sends: int(op.history.sends), Outcome: op.history.outcome().String()}
	if b := op.bound; b != nil {
		s.Method, s.URL = b.method, b.url
		if b.body {
			s.Fingerprint = b.print[:]
		}
	}
	return json.Marshal(s)
}

// UnmarshalJSON restores a saved operation. The process that saved it may have sent it since, so its outcome is [Unknown]
// until a reply tells, unless it was known to be applied.
func (op *Operation) UnmarshalJSON(data []byte) error {
	var s saved
	if err := json.Unmarshal(data, &s); err != nil {
		return fmt.Errorf("semel: the saved operation cannot be read: %w", err)
	}
	if s.Key == "" {
		return errors.New("semel: the saved operation has no key")
	}
	if n := len(s.Fingerprint); n != 0 && n != len(binding{}.print) {
		return fmt.Errorf("semel: the fingerprint saved with key %q has %d bytes", s.Key, n)
	}
	op.mu.Lock()
	defer op.mu.Unlock()
	op.history, op.failed = history{}, nil // whatever the variable held before
	op.bring(s.Key)
	op.begun = s.Begun
	op.history.restored = true
	op.history.sends = int32(min(s.Sends, math.MaxInt32))
	switch s.Outcome {
	case Applied.String():
		op.history.proven = Applied
	case AppliedEarlier.String():
		op.history.proven = AppliedEarlier
	}
	op.bound, op.first = nil, nil
	if s.Method != "" {
		op.bound = &binding{method: s.Method, url: s.URL, body: len(s.Fingerprint) > 0}
		copy(op.bound.print[:], s.Fingerprint)
	}
	return nil
}
