package semeltest

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/semel-go/semel/testserver"
)

// transact runs the case for stores that are Transactors.
func transact(run func(*storeCase, testserver.Transactor)) func(*storeCase) {
	return func(c *storeCase) {
		if t, ok := c.Store.(testserver.Transactor); ok {
			run(c, t)
		}
	}
}

func answering(a *testserver.Answer, runs *int) func(context.Context) (*testserver.Answer, error) {
	return func(context.Context) (*testserver.Answer, error) {
		*runs++
		return a, nil
	}
}

var transactRules = []storeRule{
	{"transact/work runs once and its answer is kept", "Transact claims the key, runs work and keeps its answer; a repeat returns that record without running it.", transact(func(c *storeCase, t testserver.Transactor) {
		claim := c.claim("k", long)
		runs := 0
		r, err := t.Transact(c.ctx, claim, 0, answering(sampleAnswer(), &runs))
		if err != nil || r.State != testserver.Completed || r.Owner != claim.Owner {
			c.fatalf("Transact returned %s, %v", describe(r), err)
		}
		c.sameAnswer(r.Answer, sampleAnswer())
		again, err := t.Transact(c.ctx, again(claim), 0, answering(&testserver.Answer{Status: 500}, &runs))
		if err != nil || again.Owner != claim.Owner || runs != 1 {
			c.errorf("the repeat returned %s, %v; work ran %d times", describe(again), err, runs)
		}
		c.sameAnswer(again.Answer, sampleAnswer())
		c.sameAnswer(c.look(claim.ID).Answer, sampleAnswer())
	})},
	{"transact/another fingerprint does not run", "Transact of a key that another request has used runs nothing and returns that record.", transact(func(c *storeCase, t testserver.Transactor) {
		claim := c.claim("k", long)
		runs := 0
		if _, err := t.Transact(c.ctx, claim, 0, answering(sampleAnswer(), &runs)); err != nil {
			c.fatalf("Transact failed: %v", err)
		}
		other := again(claim)
		other.Fingerprint[0]++
		if r, err := t.Transact(c.ctx, other, 0, answering(sampleAnswer(), &runs)); err != nil || runs != 1 || r.Fingerprint != claim.Fingerprint {
			c.errorf("Transact returned %s, %v; work ran %d times", describe(r), err, runs)
		}
	})},
	{"transact/a refusal is kept", "An answer with a status of 400 or more is stored.", transact(func(c *storeCase, t testserver.Transactor) {
		claim, runs := c.claim("k", long), 0
		refusal := &testserver.Answer{Status: 402, Body: []byte("no")}
		for range 2 {
			if _, err := t.Transact(c.ctx, again(claim), 0, answering(refusal, &runs)); err != nil {
				c.fatalf("Transact failed: %v", err)
			}
		}
		if runs != 1 {
			c.errorf("work ran %d times", runs)
		}
		c.sameAnswer(c.look(claim.ID).Answer, refusal)
	})},
	{"transact/an error leaves nothing", "If work returns an error or panics, everything is rolled back, the error returned, and the key is free.", transact(func(c *storeCase, t testserver.Transactor) {
		claim, boom := c.claim("k", long), errors.New("boom")
		if _, err := t.Transact(c.ctx, claim, 0, func(context.Context) (*testserver.Answer, error) { return nil, boom }); !errors.Is(err, boom) {
			c.errorf("Transact returned %v, not the error of work", err)
		}
		func() {
			defer func() { _ = recover() }()
			_, _ = t.Transact(c.ctx, again(claim), 0, func(context.Context) (*testserver.Answer, error) { panic(boom) })
		}()
		if r := c.look(claim.ID); r.State != testserver.Free {
			c.errorf("the record is %s", describe(r))
		}
		runs := 0
		if _, err := t.Transact(c.ctx, again(claim), 0, answering(sampleAnswer(), &runs)); err != nil || runs != 1 {
			c.errorf("the key is not free: %v; work ran %d times", err, runs)
		}
	})},
	{"transact/a concurrent claim waits, then is told to come back", "A concurrent claim of the key waits up to wait for the first to end; then Transact returns ErrBusy.", transact(func(c *storeCase, t testserver.Transactor) {
		claim := c.claim("k", long)
		entered, leave := make(chan struct{}), make(chan struct{})
		var wg sync.WaitGroup
		wg.Go(func() {
			first := true
			_, _ = t.Transact(c.ctx, claim, 0, func(context.Context) (*testserver.Answer, error) {
				if first {
					close(entered)
					<-leave
				}
				first = false
				return sampleAnswer(), nil
			})
		})
		<-entered
		runs := 0
		if _, err := t.Transact(c.ctx, again(claim), short, answering(sampleAnswer(), &runs)); !errors.Is(err, testserver.ErrBusy) {
			c.errorf("while the key is in use Transact returned %v, not ErrBusy", err)
		}
		wg.Go(func() {
			time.Sleep(short)
			close(leave)
		})
		r, err := t.Transact(c.ctx, again(claim), patience, answering(sampleAnswer(), &runs))
		if wg.Wait(); err != nil || r.Owner != claim.Owner || runs != 0 {
			c.errorf("after waiting Transact returned %s, %v; work ran %d times", describe(r), err, runs)
		}
	})},
	{"transact/one of many runs", "Of simultaneous transactions of one key the work of exactly one is committed, and all see its answer.", transact(func(c *storeCase, t testserver.Transactor) {
		claim := c.claim("k", long)
		var mu sync.Mutex
		owners := make(map[testserver.Owner]int)
		all := c.rush(10, func() bool {
			mine := again(claim)
			r, err := t.Transact(c.ctx, mine, patience, func(context.Context) (*testserver.Answer, error) {
				return &testserver.Answer{Status: 201, Body: mine.Owner[:]}, nil
			})
			mu.Lock()
			defer mu.Unlock()
			owners[r.Owner]++
			return err == nil && r.Answer != nil && string(r.Answer.Body) == string(r.Owner[:])
		})
		if len(owners) != 1 || all != 10 {
			c.errorf("%d different transactions were committed; %d of 10 saw an answer of the owner's", len(owners), all)
		}
	})},
	{"transact/an expired answer makes way", "Transact runs again once the terminal record has expired.", transact(func(c *storeCase, t testserver.Transactor) {
		claim, runs := c.claim("k", long), 0
		claim.Retention = short
		for range 2 {
			if _, err := t.Transact(c.ctx, again(claim), 0, answering(sampleAnswer(), &runs)); err != nil {
				c.fatalf("Transact failed: %v", err)
			}
			c.over()
		}
		if runs != 2 {
			c.errorf("work ran %d times", runs)
		}
	})},
}
