package proof

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"net/http"
	"time"

	"github.com/semel-go/semel/testserver"
)

func serverMutants() []mutant {
	return []mutant{
		{"S1", "look, then claim", onStore(func(w *world, s inner) inner { return &lookThenClaim{forgetful: forgets(s)} })},
		{"S2", "the payload is not compared", onStore(func(_ *world, s inner) inner { return noFingerprint{s} })},
		{"S3", "pending is read as done", onStore(func(_ *world, s inner) inner { return pendingIsDone{s} })},
		{"S4", "keys are purged early", onStore(func(_ *world, s inner) inner { return earlyPurge{s} })},
		{"S5", "takeover while the owner works", onStore(func(_ *world, s inner) inner { return shortLease{s} })},
		{"S6", "a stale owner may go on", onStore(func(_ *world, s inner) inner {
			return &noFence{inner: s, ends: make(map[testserver.ID]*testserver.Answer)}
		})},
		{"S7", "nobody takes over", onStore(func(_ *world, s inner) inner { return noTakeover{s} })},
		{"S8", "the effect is outside of what makes a re-run safe", func(*world) defect { return defect{onHandler: outside} }},
		{"S9", "the answer is stored after the reply", storedLate},
		{"S10", "an error keeps the claim", onStore(func(_ *world, s inner) inner { return errorKeeps{s} })},
		{"S11", "half a body is processed", func(*world) defect { return defect{onFront: halfBody} }},
		{"S12", "all keys are one", func(*world) defect { return defect{onFront: oneKey} }},
		{"S13", "a replay is rendered anew", changedReplay(func(a *testserver.Answer) {
			a.Body = fmt.Appendf(bytes.TrimSpace(a.Body), " %d", time.Now().UnixNano())
		})},
		{"S14", "a replay has another status", changedReplay(func(a *testserver.Answer) { a.Status = http.StatusAccepted })},
		{"S15", "a replay has no body", changedReplay(func(a *testserver.Answer) { a.Body = nil })},
		{"S16", "some answers are not durable", onStore(func(_ *world, s inner) inner { return &notDurable{forgetful: forgets(s)} })},
		{"S17", "half an effect", halfEffect},
		{"S18", "the claim of a client that has gone stays", func(*world) defect { return defect{onFault: tiedToClient} }},
	}
}

func onStore(change func(*world, inner) inner) func(*world) defect {
	return func(w *world) defect {
		return defect{onStore: func(s testserver.Transactor) testserver.Transactor { return change(w, s) }}
	}
}

// outside hides from the bank that it works under a claim, or in a transaction, so that a re-run is another effect.
func outside(bank http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		bank.ServeHTTP(w, r.WithContext(detached{r.Context()}))
	})
}

func halfBody(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Body != nil {
			body, _ := io.ReadAll(r.Body) // whatever came
			r.Body, r.ContentLength = io.NopCloser(bytes.NewReader(body)), int64(len(body))
		}
		next.ServeHTTP(w, r)
	})
}

func oneKey(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Header.Get("Idempotency-Key") != "" {
			r.Header.Set("Idempotency-Key", "the-key")
		}
		next.ServeHTTP(w, r)
	})
}

// halfEffect credits nobody.
func halfEffect(w *world) defect {
	return defect{onHandler: func(bank http.Handler) http.Handler {
		return http.HandlerFunc(func(rw http.ResponseWriter, r *http.Request) {
			reply := &watchedReply{ResponseWriter: rw}
			bank.ServeHTTP(reply, r)
			if t, ok := parseReply(reply.body.String()); ok && r.Method == http.MethodPost {
				w.bank.Open(t.To, w.bank.Balance(t.To)-t.Amount)
			}
		})
	}}
}

// tiedToClient stops work whose client has gone, and leaves the claim.
func tiedToClient(fault testserver.Fault) testserver.Fault {
	return func(ctx context.Context, p testserver.Point, v testserver.Visit) error {
		err := fault(ctx, p, v)
		if err == nil && p == testserver.AfterClaim && ctx.Err() != nil {
			return testserver.ErrCrash
		}
		return err
	}
}
