package testserver

import (
	"context"
	"errors"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"
)

const claimTime = 2 * time.Second // that a store which fails is asked for

// take claims the key. While somebody else works on the same request it waits for as long as the client prefers. lapses is
// when a lease so gained ends, and not later.
func (a *attempt) take() (rec Record, lapses time.Time, err error) {
	rec, lapses, err = a.ask()
	wait := min(preferredWait(a.r.Header), orDefault(a.g.MaxWait, 10*time.Second))
	if err != nil || wait <= 0 || !a.mayWait(rec) || !a.g.join(a.claim.ID) {
		return rec, lapses, err
	}
	defer a.g.part(a.claim.ID)
	ctx, cancel := context.WithTimeout(a.r.Context(), wait)
	defer cancel()
	for a.mayWait(rec) && a.g.Store.Wait(ctx, a.claim.ID) == nil {
		if rec, lapses, err = a.ask(); err != nil || !a.mayWait(rec) {
			break
		}
		select { // Wait may return early
		case <-ctx.Done():
		case <-time.After(time.Millisecond):
		}
	}
	return rec, lapses, err
}

func (a *attempt) mayWait(rec Record) bool {
	return rec.State == Pending && rec.Owner != a.claim.Owner && rec.Fingerprint == a.claim.Fingerprint
}

// ask claims once, and again with the same owner if the store's answer was lost. It goes on when the client is gone, for a
// claim that nobody knows of would block the key.
func (a *attempt) ask() (rec Record, lapses time.Time, err error) {
	ctx := context.WithoutCancel(a.r.Context())
	a.claim.Owner = a.g.adopt(a.claim)
	err = retry(ctx, claimTime, func(ctx context.Context) (bool, error) {
		asked, err := time.Now(), error(nil)
		rec, err = a.g.Store.Claim(ctx, a.claim)
		lapses = asked.Add(rec.Left)
		return err == nil || errors.Is(err, ErrFull), err
	})
	switch {
	case err != nil && !errors.Is(err, ErrFull):
		a.g.orphan(a.claim)
	case err == nil && rec.Owner == a.claim.Owner && (rec.State == Unknown || rec.State == Pending && rec.Left < a.g.lease()/2):
		rec, lapses, err = a.revive(ctx, rec)
	}
	return rec, lapses, err
}

// revive renews a claim that is ours and under which nothing was run, after it took long to learn of it.
func (a *attempt) revive(ctx context.Context, rec Record) (Record, time.Time, error) {
	asked := time.Now()
	ctx, cancel := context.WithTimeout(ctx, storeTimeout)
	defer cancel()
	renewals, err := a.g.Store.Renew(ctx, a.g.lease(), []Hold{rec.Hold()})
	if err != nil || len(renewals) != 1 || renewals[0] == Busy {
		a.g.orphan(a.claim)
		return rec, asked, errors.Join(ErrBusy, err)
	}
	if renewals[0] == Lost {
		rec.State, rec.Owner = Pending, Owner{}
		return rec, asked, nil
	}
	rec.State, rec.Left = Pending, a.g.lease()
	return rec, asked.Add(rec.Left), nil
}

const maxOrphans = 1024

// orphan remembers a claim that may have succeeded without our hearing of it. The next attempt takes it up, one at a time:
// nothing was run under it, so the key need not stay blocked, or its outcome unknown.
func (g *Guard) orphan(c Claim) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if len(g.orphans) == maxOrphans {
		g.orphans = slices.Delete(g.orphans, 0, 1)
	}
	g.orphans = append(g.orphans, c)
}

// adopt returns the owner of an orphan of the same request, which is nobody else's from then on, or the claim's own.
func (g *Guard) adopt(c Claim) Owner {
	g.mu.Lock()
	defer g.mu.Unlock()
	i := slices.IndexFunc(g.orphans, func(o Claim) bool { return o.ID == c.ID && o.Fingerprint == c.Fingerprint })
	if i < 0 {
		return c.Owner
	}
	owner := g.orphans[i].Owner
	g.orphans = slices.Delete(g.orphans, i, i+1)
	return owner
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
