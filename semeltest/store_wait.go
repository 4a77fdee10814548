package semeltest

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/semel-go/semel/testserver"
)

// patience bounds what a store must do soon. It is generous: a slow machine is not a defect.
const patience = 30 * time.Second

// waits calls Wait until the record is no longer pending, and says whether that worked out in time.
func (c *storeCase) waits(id testserver.ID) bool {
	ctx, cancel := context.WithTimeout(c.ctx, patience)
	defer cancel()
	for {
		if err := c.Wait(ctx, id); err != nil {
			return false
		}
		if r, err := c.Look(ctx, id); err != nil || r.State != testserver.Pending || r.Left == 0 {
			return err == nil
		}
	}
}

var waitRules = []storeRule{
	{"wait/it returns when the record is settled or freed", "Wait returns as soon as the pending record is settled or freed, to all who wait.", func(c *storeCase) {
		for key, s := range map[string]testserver.Settlement{"completed": completed(sampleAnswer()), "freed": {State: testserver.Free}, "unknown": {State: testserver.Unknown}} {
			h := c.take(c.claim(key, long))
			results := make(chan bool)
			for range 3 {
				go func() { results <- c.waits(h.ID) }()
			}
			time.Sleep(short) // let them wait
			c.settle(h, s, nil)
			for range 3 {
				if !<-results {
					c.errorf("somebody waited in vain for the record to be %s", key)
				}
			}
		}
	}},
	{"wait/it returns when the lease lapses", "Wait returns when the lease lapses, so that waiters can take over.", func(c *storeCase) {
		h := c.take(c.claim("k", short))
		if !c.waits(h.ID) {
			c.errorf("Wait did not return")
		}
		c.take(c.claim("k", long))
	}},
	{"wait/nothing to wait for", "Without a pending record Wait returns nil.", func(c *storeCase) {
		h := c.take(c.claim("k", long))
		c.settle(h, completed(sampleAnswer()), nil)
		for _, key := range []string{"k", "never"} {
			if !c.waits(testserver.ID{Scope: c.scope, Key: key}) {
				c.errorf("Wait did not return")
			}
		}
	}},
	{"wait/it ends with the context", "Wait returns the context's error when that ends first.", func(c *storeCase) {
		h := c.take(c.claim("k", long))
		ctx, cancel := context.WithTimeout(c.ctx, short)
		defer cancel()
		done := make(chan error, 1)
		go func() {
			for ctx.Err() == nil { // it may return early
				if err := c.Wait(ctx, h.ID); err != nil {
					done <- err
					return
				}
				time.Sleep(time.Millisecond)
			}
			done <- context.DeadlineExceeded
		}()
		late := time.NewTimer(patience)
		defer late.Stop()
		select {
		case err := <-done:
			if !errors.Is(err, context.DeadlineExceeded) {
				c.errorf("Wait returned %v", err)
			}
		case <-late.C:
			c.errorf("Wait did not return")
		}
	}},
}

var purgeRules = []storeRule{
	{"purge/it removes what has expired, so many at most", "Purge removes at most limit expired terminal records and returns how many.", func(c *storeCase) {
		for _, key := range []string{"a", "b", "c", "d", "e"} {
			claim := c.claim(key, long)
			claim.Retention = short
			c.settle(c.take(claim), completed(sampleAnswer()), nil)
		}
		c.over()
		total := 0
		for {
			n, err := c.Purge(c.ctx, 2)
			if err != nil {
				c.fatalf("Purge failed: %v", err)
			}
			if n > 2 || n < 0 {
				c.fatalf("Purge removed %d of at most 2", n)
			}
			if total += n; n == 0 {
				break
			}
		}
		if total < 5 {
			c.errorf("Purge removed %d records of 5", total)
		}
	}},
	{"purge/it leaves the rest alone", "Purge removes neither pending nor unknown records, nor answers within their retention.", func(c *storeCase) { // servers.md B38
		expired := func(key string) testserver.Claim {
			claim := c.claim(key, long)
			claim.Retention = short
			return claim
		}
		pending, unknown, kept := expired("pending"), expired("unknown"), c.claim("kept", long)
		p, u, k := c.take(pending), c.take(unknown), c.take(kept)
		c.settle(u, testserver.Settlement{State: testserver.Unknown}, nil)
		c.settle(k, completed(sampleAnswer()), nil)
		reborn := expired("reborn")
		c.settle(c.take(reborn), completed(sampleAnswer()), nil)
		c.over()
		next := again(reborn)
		r := c.take(next)
		if _, err := c.Purge(c.ctx, 1000); err != nil {
			c.fatalf("Purge failed: %v", err)
		}
		c.stands(c.look(pending.ID), testserver.Pending, p)
		c.stands(c.look(unknown.ID), testserver.Unknown, u)
		c.stands(c.look(kept.ID), testserver.Completed, k)
		c.stands(c.look(reborn.ID), testserver.Pending, r)
	}},
}

var raceRules = []storeRule{
	{"race/one of many claims wins", "Of simultaneous claims of one key exactly one succeeds, whether the key was free, freed, lapsed or expired (faults.md 17).", func(c *storeCase) { // servers.md B1, B2, B45
		for name, prepare := range map[string]func(testserver.Claim){
			"free":  func(testserver.Claim) {},
			"freed": func(k testserver.Claim) { c.settle(c.take(k), testserver.Settlement{State: testserver.Free}, nil) },
			"lapsed": func(k testserver.Claim) {
				k.Lease = short
				c.take(k)
				c.over()
			},
			"expired": func(k testserver.Claim) {
				k.Retention = short
				c.settle(c.take(k), completed(sampleAnswer()), nil)
				c.over()
			},
		} {
			claim := c.claim(name, long)
			prepare(claim)
			if won := c.rush(20, func() bool {
				mine := again(claim)
				r, err := c.Claim(c.ctx, mine)
				return err == nil && r.HeldBy(mine.Owner)
			}); won != 1 {
				c.errorf("of 20 claims of a key that was %s, %d succeeded", name, won)
			}
		}
	}},
	{"race/one holder at a time", "Whoever claims and frees in turn is alone while it holds the key.", func(c *storeCase) {
		claim := c.claim("k", long)
		var mu sync.Mutex
		holders, worst := 0, 0
		c.rush(8, func() bool {
			for range 10 {
				mine := again(claim)
				r, err := c.Claim(c.ctx, mine)
				if err != nil || !r.HeldBy(mine.Owner) {
					continue
				}
				mu.Lock()
				holders++
				worst = max(worst, holders)
				mu.Unlock()
				time.Sleep(time.Millisecond)
				mu.Lock()
				holders--
				mu.Unlock()
				_ = c.Settle(c.ctx, r.Hold(), testserver.Settlement{State: testserver.Free})
			}
			return true
		})
		if worst > 1 {
			c.errorf("%d held the key at the same time", worst)
		}
	}},
	{"race/takeover or completion, not both", "When a late owner settles while another takes over, one of them loses.", func(c *storeCase) { // servers.md B9, B11
		for i := range 10 {
			claim := c.claim(string(rune('a'+i)), short)
			old := c.take(claim)
			c.over()
			next := again(claim)
			next.Lease = long
			var settled, taken bool
			var wg sync.WaitGroup
			wg.Go(func() {
				time.Sleep(turn(i))
				settled = c.Settle(c.ctx, old, completed(sampleAnswer())) == nil
			})
			wg.Go(func() {
				time.Sleep(turn(i + 1))
				r, err := c.Claim(c.ctx, next)
				taken = err == nil && r.HeldBy(next.Owner)
			})
			wg.Wait()
			if settled == taken {
				c.errorf("settled %t and taken over %t", settled, taken)
			}
		}
	}},
	{"race/purge does not remove a fresh claim", "A purge that runs while an expired key is claimed again does not remove the fresh claim.", func(c *storeCase) { // servers.md B36, B37
		for i := range 10 {
			claim := c.claim(string(rune('a'+i)), long)
			claim.Retention = short
			c.settle(c.take(claim), completed(sampleAnswer()), nil)
			c.over()
			next := again(claim)
			var wg sync.WaitGroup
			for range 3 {
				wg.Go(func() { _, _ = c.Purge(c.ctx, 100) })
			}
			time.Sleep(turn(i))
			r := c.ask(next)
			wg.Wait()
			if !r.HeldBy(next.Owner) {
				c.fatalf("the expired key was not taken: %s", describe(r))
			}
			c.stands(c.look(claim.ID), testserver.Pending, r.Hold())
		}
	}},
}

// turn lets now the one and now the other go first.
func turn(i int) time.Duration { return time.Duration(i%2) * 100 * time.Microsecond }

// rush calls f from many goroutines at once and counts how often it returns true.
func (c *storeCase) rush(n int, f func() bool) (won int) {
	var wg sync.WaitGroup
	var mu sync.Mutex
	start := make(chan struct{})
	for range n {
		wg.Go(func() {
			<-start
			if f() {
				mu.Lock()
				won++
				mu.Unlock()
			}
		})
	}
	close(start)
	wg.Wait()
	return won
}
