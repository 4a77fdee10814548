package testserver

import (
	"context"
	"errors"
	"net/http"
	"strconv"
	"strings"
	"time"
)

// take claims the key. While somebody else works on the same request it waits for as long as the client prefers. since is
// a time before the lease began.
func (a *attempt) take() (rec Record, since time.Time, err error) {
	rec, since, err = a.ask()
	wait := min(preferredWait(a.r.Header), orDefault(a.g.MaxWait, 10*time.Second))
	if err != nil || wait <= 0 || !a.mayWait(rec) || !a.g.join(a.claim.ID) {
		return rec, since, err
	}
	defer a.g.part(a.claim.ID)
	ctx, cancel := context.WithTimeout(a.r.Context(), wait)
	defer cancel()
	for a.mayWait(rec) && a.g.Store.Wait(ctx, a.claim.ID) == nil {
		if rec, since, err = a.ask(); err != nil {
			break
		}
		select { // Wait may return early
		case <-ctx.Done():
		case <-time.After(time.Millisecond):
		}
	}
	return rec, since, err
}

func (a *attempt) mayWait(rec Record) bool {
	return rec.State == Pending && rec.Owner != a.claim.Owner && rec.Fingerprint == a.claim.Fingerprint
}

// ask claims once, and again with the same owner if the store's answer was lost. It goes on when the client is gone, for a
// claim that nobody knows of would block the key.
func (a *attempt) ask() (rec Record, since time.Time, err error) {
	since = time.Now()
	err = retry(context.WithoutCancel(a.r.Context()), min(2*time.Second, a.g.lease()/2), func(ctx context.Context) (bool, error) {
		var err error
		rec, err = a.g.Store.Claim(ctx, a.claim)
		return err == nil || errors.Is(err, ErrFull), err
	})
	return rec, since, err
}

func (g *Guard) look(ctx context.Context, id ID) (Record, error) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), storeTimeout)
	defer cancel()
	return g.Store.Look(ctx, id)
}

// join lets a request wait for the key, if not too many do.
func (g *Guard) join(id ID) bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.waiters[id] >= orDefault(g.MaxWaiters, 4) {
		return false
	}
	if g.waiters == nil {
		g.waiters = make(map[ID]int)
	}
	g.waiters[id]++
	return true
}

func (g *Guard) part(id ID) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.waiters[id]--; g.waiters[id] == 0 {
		delete(g.waiters, id)
	}
}

// preferredWait reads "Prefer: wait=N" (RFC 7240 section 4.3). The first of several counts.
func preferredWait(h http.Header) time.Duration {
	for _, line := range h.Values("Prefer") {
		for pref := range strings.SplitSeq(line, ",") {
			pref, _, _ = strings.Cut(pref, ";")
			name, value, _ := strings.Cut(pref, "=")
			if !strings.EqualFold(strings.TrimSpace(name), "wait") {
				continue
			}
			n, err := strconv.ParseUint(strings.Trim(strings.TrimSpace(value), `"`), 10, 31)
			if err != nil {
				return 0
			}
			return time.Duration(n) * time.Second
		}
	}
	return 0
}
