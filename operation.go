package semel

import (
	"context"
	"net/http"
	"sync"
)

// An Operation is what the caller wants done once. It holds the key and the history of every attempt made under it, over
// redirects, calls and restarts. It is safe for concurrent use: its history merges.
type Operation struct {
	mu  sync.Mutex
	key string
}

// NewOperation returns an operation with this key; if it is empty, with a fresh one. A key that was not minted here counts
// as one under which something may have been sent.
func NewOperation(key string) *Operation { return &Operation{key: key} }

// Bind fixes the operation to the request, its method, URL and body, before anything is sent, so that it can be saved. The
// body must be repeatable (GetBody); it is read, not kept: saving it is up to the caller.
func (op *Operation) Bind(req *http.Request) error { return nil }

// Context returns a context that makes requests part of this operation.
func (op *Operation) Context(ctx context.Context) context.Context { return ctx }

// Key returns the operation's key.
func (op *Operation) Key() string { return op.key }

// Outcome returns what may be believed of the operation now.
func (op *Operation) Outcome() Outcome { return Unknown }

// WithKey returns a context that gives its request this key. It names one operation: a request with another method, URL or
// body under it is refused with KeyReused, unsent.
func WithKey(ctx context.Context, key string) context.Context { return NewOperation(key).Context(ctx) }
