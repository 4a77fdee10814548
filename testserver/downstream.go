package testserver

import (
	"context"
	"fmt"
)

// DownstreamKey returns the idempotency key under which a guarded handler makes a request to a provider. It is a UUID
// (version 8, RFC 9562 section 5.8) made of the operation's scope and key, the provider and the step, and of nothing
// else, so it is the same after a crash, in every process, and after the operation's record was purged. Give each request
// that the handler makes a step of its own.
//
// It is an error to ask for one where no guard has claimed a key.
func DownstreamKey(ctx context.Context, provider, step string) (string, error) {
	r := runFrom(ctx)
	if r == nil {
		return "", errUnguarded
	}
	r.named()
	h := digest("semel-downstream-1", r.hold.ID.Scope, r.hold.ID.Key, provider, step)
	u := h[:16]
	u[6] = u[6]&0x0f | 0x80
	u[8] = u[8]&0x3f | 0x80
	return fmt.Sprintf("%x-%x-%x-%x-%x", u[:4], u[4:6], u[6:8], u[8:10], u[10:]), nil
}

// named notes that the handler has a name for its effect, and may have started it.
func (r *run) named() {
	r.g.mu.Lock()
	defer r.g.mu.Unlock()
	r.keyed = true
}
