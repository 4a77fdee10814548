package testserver

import (
	"context"
	"errors"
	"time"
)

const (
	settleInline = 5 * time.Second // that the client waits for
	settleAfter  = 5 * time.Minute // that the guard goes on trying
)

// settle ends the claim. ErrLost means that it belongs to somebody else. While the store fails the lease is kept up, and
// after a few seconds settling goes on in the background: the answer is due, and the claim is never given up for it.
func (g *Guard) settle(r *run, s Settlement) error {
	if s.State == Pending {
		return g.lapse(r)
	}
	done := false
	call := func(ctx context.Context) (bool, error) {
		err := g.Store.Settle(ctx, r.hold, s)
		if errors.Is(err, ErrStarted) && s.State == Free {
			s = Settlement{State: Unknown} // the mark had arrived after all
			return false, err
		}
		done = err == nil || errors.Is(err, ErrLost)
		return done, err
	}
	g.keepUntil(r, time.Now().Add(settleInline+settleAfter))
	err := retry(context.Background(), settleInline, call)
	if done {
		g.forget(r)
		return err
	}
	g.enter()
	go func() {
		defer g.leave()
		defer g.forget(r)
		_ = retry(context.Background(), settleAfter, call) // in the end the lease lapses, and the claim with it
	}()
	return err
}

// lapse gives up the lease, so that the next request may run the operation again. If the store cannot be told, the lease
// ends by itself.
func (g *Guard) lapse(r *run) error {
	g.forget(r)
	ctx, cancel := context.WithTimeout(context.Background(), storeTimeout)
	defer cancel()
	renewals, err := g.Store.Renew(ctx, time.Millisecond, []Hold{r.hold})
	if err == nil && len(renewals) == 1 && renewals[0] == Lost {
		return ErrLost
	}
	return nil
}

func (g *Guard) keepUntil(r *run, t time.Time) {
	g.mu.Lock()
	defer g.mu.Unlock()
	r.until = t
}
