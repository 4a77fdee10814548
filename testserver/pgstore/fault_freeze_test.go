//go:build unix

package pgstore_test

import (
	"context"
	"net/http"
	"testing"
	"time"

	"github.com/semel-go/semel/testserver"
	"github.com/semel-go/semel/testserver/pgstore/pgtest"
)

// faults.md 20; servers.md B8, B9, B10, B19. The process is stopped for longer than its lease, and then goes on as if
// nothing had been: its operation is somebody else's by then.
func TestAServerThatFreezesPastItsLeaseAndGoesOnDoublesNothing(t *testing.T) {
	const known, unknown = true, false
	for _, tt := range []struct {
		effect testserver.Effect
		point  string
		answer bool // while the process is frozen: from the other one, or unknown
	}{
		{testserver.Once, afterClaim, unknown},
		{testserver.Once, afterEffect, unknown},
		{testserver.Once, afterCommit, known},
		{testserver.Marked, afterClaim, known},
		{testserver.Marked, afterMark, unknown},
		{testserver.Marked, afterEffect, unknown},
		{testserver.Keyed, afterClaim, known},
		{testserver.Keyed, afterEffect, known},
		{testserver.Transactional, afterClaim, known},
		{testserver.Transactional, afterEffect, known},
		{testserver.Transactional, afterCommit, known},
	} {
		t.Run(effectNames[tt.effect]+" "+tt.point, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t, 2, pgtest.DSN(t), serverSpec{Effect: tt.effect})
			w.patience = 500 * time.Millisecond
			frozen, other := w.servers[0], w.servers[1]
			w.client = w.newClient(func(attempt int) string {
				if attempt == 1 {
					return frozen.addr
				}
				return other.addr
			})
			ctx, cancel := context.WithTimeout(t.Context(), patience)
			defer cancel()
			o := w.newOperation(func(attempt int, h http.Header) {
				if attempt == 1 {
					h.Set(stopHeader, tt.point)
				}
			})
			during := w.perform(ctx, o)
			if tt.answer && during.status != http.StatusCreated || !tt.answer && !during.unknown {
				t.Errorf("status %d, unknown %v, want an answer: %v", during.status, during.unknown, tt.answer)
			}
			w.judge([]result{during})

			frozen.Resume(t)
			w.judge([]result{during})
			after := w.perform(ctx, o)
			if after.status != http.StatusCreated {
				t.Errorf("once the process had gone on the operation had the status %d, unknown %v", after.status, after.unknown)
			}
			w.judge([]result{after})
			t.Logf("settled after %v and %d attempts", during.took.Round(time.Millisecond), during.sent.Load())
		})
	}
}
