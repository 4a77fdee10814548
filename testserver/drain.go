package testserver

import (
	"context"
	"fmt"
	"math/rand/v2"
	"time"
)

func (g *Guard) enter() {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.active++
}

func (g *Guard) leave() {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.active--; g.active == 0 && g.idle != nil {
		close(g.idle)
		g.idle = nil
	}
}

// Drain returns once no guarded request is being handled and nothing is left to settle, or with an error when the context
// ends first. Call it after [net/http.Server.Shutdown], which does not wait for handlers whose HTTP/2 client is gone, and
// before the Store is closed. The guard can still be used.
func (g *Guard) Drain(ctx context.Context) error {
	for {
		g.mu.Lock()
		n := g.active
		if n > 0 && g.idle == nil {
			g.idle = make(chan struct{})
		}
		idle := g.idle
		g.mu.Unlock()
		if n == 0 {
			return nil
		}
		select {
		case <-idle:
		case <-ctx.Done():
			return fmt.Errorf("testserver: %d operations are still under way; what they do is not settled: %w", n, context.Cause(ctx))
		}
	}
}

// Purge removes expired records from the Store, in small batches and at intervals of about a minute, until the context
// ends. It is not needed for answers to expire, only for their room. A store that fails is asked again later.
func (g *Guard) Purge(ctx context.Context) {
	const batch = 1000
	for {
		wait := 45*time.Second + rand.N(30*time.Second) // replicas drift apart
		call, cancel := context.WithTimeout(ctx, storeTimeout)
		n, err := g.Store.Purge(call, batch)
		cancel()
		if err == nil && n >= batch {
			wait = 50 * time.Millisecond
		}
		select {
		case <-ctx.Done():
			return
		case <-time.After(wait):
		}
	}
}
