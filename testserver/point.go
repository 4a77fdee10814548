package testserver

import (
	"context"
	"errors"
	"net/http"
	"time"
)

// count numbers the attempts of a key, for faults.
func (g *Guard) count(id ID) int {
	if g.Fault == nil {
		return 0
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.attempts == nil {
		g.attempts = make(map[ID]int)
	}
	g.attempts[id]++
	return g.attempts[id]
}

func (a *attempt) visit(p Point) error {
	if a.g.Fault == nil {
		return nil
	}
	return a.g.Fault(a.r.Context(), p, Visit{ID: a.claim.ID, Attempt: a.n, a: a})
}

// pass visits a point outside the handler and reports whether the attempt goes on. If not, it was answered.
func (a *attempt) pass(p Point) bool {
	err := a.visit(p)
	if err == nil {
		return true
	}
	ans := faultAnswer(err)
	putHeader(a.w.Header(), ans)
	a.w.WriteHeader(ans.Status)
	_, _ = a.w.Write(ans.Body)
	return false
}

// fail visits a point around the handler. ErrCrash is returned; a status is recorded as if the handler had answered it.
func (a *attempt) fail(p Point, rec *recorder) error {
	err := a.visit(p)
	if err == nil || errors.Is(err, ErrCrash) {
		return err
	}
	ans := faultAnswer(err)
	if rec.left {
		rec.abort()
	}
	rec.reset()
	putHeader(rec.Header(), ans)
	rec.WriteHeader(ans.Status)
	_, _ = rec.Write(ans.Body)
	return nil
}

// faultAnswer returns the reply that a fault asks for, or cuts the connection.
func faultAnswer(err error) *Answer {
	var status *statusFault
	switch {
	case errors.Is(err, ErrCrash), errors.Is(err, http.ErrAbortHandler):
		panic(http.ErrAbortHandler)
	case errors.As(err, &status):
		return status.answer()
	}
	return (&statusFault{code: http.StatusInternalServerError}).answer()
}

// cut reports whether the connection is cut within the body of n bytes, and after how many.
func (a *attempt) cut(n int) (int, bool) {
	err := a.visit(InReply)
	var cut cutFault
	switch {
	case err == nil:
		return n, false
	case errors.As(err, &cut):
		return min(max(int(cut), 0), n), true
	}
	return n / 2, true
}

func (a *attempt) freeze(on bool) {
	a.g.mu.Lock()
	defer a.g.mu.Unlock()
	if a.run != nil {
		a.run.frozen = on
	}
}

// again serves the request once more, for nobody.
func (a *attempt) again(delay time.Duration) {
	b := &attempt{g: a.g, w: &nobody{header: make(http.Header)}, body: a.body, claim: a.claim}
	b.r = a.request(context.WithoutCancel(a.r.Context()))
	b.claim.Owner = NewOwner()
	a.g.enter()
	go func() {
		defer a.g.leave()
		defer func() {
			if v := recover(); v != nil && v != http.ErrAbortHandler {
				panic(v)
			}
		}()
		time.Sleep(delay)
		b.serve()
	}()
}

// nobody reads no reply.
type nobody struct{ header http.Header }

func (n *nobody) Header() http.Header         { return n.header }
func (n *nobody) Write(p []byte) (int, error) { return len(p), nil }
func (n *nobody) WriteHeader(int)             {}
