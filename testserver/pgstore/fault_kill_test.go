//go:build unix

package pgstore_test

import (
	"context"
	"net/http"
	"sync"
	"testing"
	"time"

	"github.com/semel-go/semel/testserver"
	"github.com/semel-go/semel/testserver/pgstore/pgtest"
)

var effectNames = map[testserver.Effect]string{
	testserver.Once: "once", testserver.Marked: "marked", testserver.Keyed: "keyed", testserver.Transactional: "transactional",
}

// faults.md 16, 18, 23, 24, 32; servers.md B5, B7.
func TestAServerKilledAtAnyPointNeverRunsAnEffectTwiceAndLeavesNoKeyBehind(t *testing.T) {
	const known, unknown = true, false
	for _, tt := range []struct {
		effect  testserver.Effect
		point   string
		answer  bool // or unknown
		effects int
	}{
		{testserver.Once, beforeClaim, known, 1},
		{testserver.Once, afterClaim, unknown, 0},
		{testserver.Once, afterEffect, unknown, 1},
		{testserver.Once, afterCommit, known, 1},

		{testserver.Marked, beforeClaim, known, 1},
		{testserver.Marked, afterClaim, known, 1},
		{testserver.Marked, afterMark, unknown, 0},
		{testserver.Marked, afterEffect, unknown, 1},
		{testserver.Marked, afterCommit, known, 1},

		{testserver.Keyed, beforeClaim, known, 1},
		{testserver.Keyed, afterClaim, known, 1},
		{testserver.Keyed, afterEffect, known, 1},
		{testserver.Keyed, afterCommit, known, 1},

		{testserver.Transactional, beforeClaim, known, 1},
		{testserver.Transactional, afterClaim, known, 1},
		{testserver.Transactional, afterEffect, known, 1},
		{testserver.Transactional, afterCommit, known, 1},
	} {
		t.Run(effectNames[tt.effect]+" "+tt.point, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t, 1, pgtest.DSN(t), serverSpec{Effect: tt.effect})
			ctx, cancel := context.WithTimeout(t.Context(), patience)
			defer cancel()
			r := w.perform(ctx, w.newOperation(func(attempt int, h http.Header) {
				if attempt == 1 {
					h.Set(killHeader, tt.point)
				}
			}))
			w.judge([]result{r})
			if n := w.servers[0].Deaths(); n != 1 {
				t.Errorf("the server died %d times", n)
			}
			if tt.answer && r.status != http.StatusCreated || !tt.answer && !r.unknown {
				t.Errorf("status %d, unknown %v, want an answer: %v", r.status, r.unknown, tt.answer)
			}
			effects, _ := w.book()
			if n := len(effects[r.name]); n != tt.effects {
				t.Errorf("%d effects, want %d", n, tt.effects)
			}
			t.Logf("settled after %v and %d attempts", r.took.Round(time.Millisecond), r.sent.Load())
		})
	}
}

// load performs operations from so many clients at once until the context ends, or each has made its share, and sees
// every one to its end.
func (w *world) load(ctx context.Context, clients, share int, script func(attempt int, h http.Header)) []result {
	var mu sync.Mutex
	var all []result
	var group sync.WaitGroup
	for range clients {
		group.Go(func() {
			for n := 0; n < share && ctx.Err() == nil; n++ {
				end, cancel := context.WithTimeout(context.WithoutCancel(ctx), 2*time.Minute)
				r := w.perform(end, w.newOperation(script))
				cancel()
				mu.Lock()
				all = append(all, r)
				mu.Unlock()
			}
		})
	}
	group.Wait()
	return all
}
