package semeltest

import (
	"slices"
	"time"

	"github.com/semel-go/semel/testserver"
)

var renewRules = []storeRule{
	{"renew/it extends the lease", "Renew extends the lease: a renewed claim is not taken over when its first lease would have ended.", func(c *storeCase) { // servers.md B8
		claim := c.claim("k", short)
		h := c.take(claim)
		c.renew(long, testserver.Renewed)(h)
		c.over()
		r := c.refused(again(claim), testserver.Pending, h)
		if r.Left <= 0 {
			c.errorf("Left is %v after the renewal", r.Left)
		}
		c.settle(h, completed(sampleAnswer()), nil)
	}},
	{"renew/it reports on each hold in order", "Renew reports on each of many holds, in their order; what is settled, gone or somebody else's is lost.", func(c *storeCase) {
		done, gone, kept, last := c.take(c.claim("done", long)), c.take(c.claim("gone", long)), c.take(c.claim("kept", short)), c.take(c.claim("last", long))
		c.settle(done, completed(sampleAnswer()), nil)
		c.settle(gone, testserver.Settlement{State: testserver.Free}, nil)
		never := kept
		never.ID.Key = "never"
		c.renew(long, testserver.Lost, testserver.Renewed, testserver.Lost, testserver.Lost, testserver.Renewed)(done, kept, gone, never, last)
		c.renew(long)()
		c.over()
		c.refused(again(c.claim("kept", long)), testserver.Pending, kept)
	}},
	{"renew/many holds at once", "Renew extends many leases at once.", func(c *storeCase) {
		var holds []testserver.Hold
		for i := range 100 {
			holds = append(holds, c.take(c.claim(string(rune('a'+i)), long)))
		}
		c.renew(long, slices.Repeat([]testserver.Renewal{testserver.Renewed}, 100)...)(holds...)
	}},
	{"renew/it marks the effect for good", "A hold with Started marks its effect as started, and no later renewal takes that back: once lapsed the record turns unknown.", func(c *storeCase) {
		claim := c.claim("k", long)
		h := c.take(claim)
		started := h
		started.Started = true
		c.renew(long, testserver.Renewed)(started)
		c.renew(short, testserver.Renewed)(h)
		if !c.look(claim.ID).Started {
			c.errorf("the mark is gone after a renewal without it")
		}
		c.over()
		c.refused(again(claim), testserver.Unknown, h)
	}},
	{"renew/it revives its own unknown record", "A record of the same owner and fence that had turned unknown is pending again.", func(c *storeCase) {
		claim := c.claim("k", short)
		claim.Started = true
		h := c.take(claim)
		c.over()
		c.refused(again(claim), testserver.Unknown, h)
		c.renew(long, testserver.Renewed)(h)
		c.refused(again(claim), testserver.Pending, h)
	}},
	{"renew/it does not revive an end", "Renew does not touch a settled record: an answer stays.", func(c *storeCase) {
		claim := c.claim("k", long)
		h := c.take(claim)
		c.settle(h, completed(sampleAnswer()), nil)
		c.renew(long, testserver.Lost)(h)
		c.sameAnswer(c.refused(again(claim), testserver.Completed, h).Answer, sampleAnswer())
	}},
}

var settleRules = []storeRule{
	{"settle/it can be repeated", "Settle succeeds again for the same end under the same hold, so that a lost answer is cured by asking again.", func(c *storeCase) { // servers.md B15
		for key, s := range map[string]testserver.Settlement{
			"completed": completed(sampleAnswer()),
			"tombstone": {State: testserver.Tombstone, Answer: &testserver.Answer{Status: 201, Header: sampleAnswer().Header}},
			"unknown":   {State: testserver.Unknown},
			"free":      {State: testserver.Free},
		} {
			h := c.take(c.claim(key, long))
			c.settle(h, s, nil)
			c.settle(h, s, nil)
		}
	}},
	{"settle/another end is refused", "Once settled a record has its end: another one is refused with ErrLost, and the answer never changes.", func(c *storeCase) {
		claim := c.claim("k", long)
		h := c.take(claim)
		c.settle(h, completed(sampleAnswer()), nil)
		c.settle(h, testserver.Settlement{State: testserver.Tombstone, Answer: &testserver.Answer{Status: 201}}, testserver.ErrLost)
		c.settle(h, testserver.Settlement{State: testserver.Unknown}, testserver.ErrLost)
		c.settle(h, testserver.Settlement{State: testserver.Free}, testserver.ErrLost)
		_ = c.Settle(c.ctx, h, completed(&testserver.Answer{Status: 500, Body: []byte("other")}))
		c.sameAnswer(c.refused(again(claim), testserver.Completed, h).Answer, sampleAnswer())
	}},
	{"settle/a late end counts", "Settle succeeds while the record is pending or unknown under the hold, however late (faults.md 20).", func(c *storeCase) { // servers.md B19
		lapsed := c.claim("lapsed", short)
		h := c.take(lapsed)
		unknown := c.claim("unknown", short)
		unknown.Started = true
		u := c.take(unknown)
		c.over()
		c.settle(h, completed(sampleAnswer()), nil)
		c.refused(again(lapsed), testserver.Completed, h)
		c.refused(again(unknown), testserver.Unknown, u)
		c.settle(u, completed(sampleAnswer()), nil)
		c.sameAnswer(c.refused(again(unknown), testserver.Completed, u).Answer, sampleAnswer())
	}},
	{"settle/unknown can be resolved", "An unknown record can still be completed, or left a tombstone, under its hold.", func(c *storeCase) { // servers.md B48
		claim := c.claim("k", long)
		claim.Started = true
		h := c.take(claim)
		c.settle(h, testserver.Settlement{State: testserver.Unknown}, nil)
		c.refused(again(claim), testserver.Unknown, h)
		c.settle(h, completed(sampleAnswer()), nil)
		c.refused(again(claim), testserver.Completed, h)
	}},
	{"settle/no claim, no end", "Without a record there is nothing to complete: ErrLost.", func(c *storeCase) {
		ghost := testserver.Hold{ID: testserver.ID{Scope: c.scope, Key: "k"}, Owner: testserver.NewOwner(), Fence: 1}
		c.settle(ghost, completed(sampleAnswer()), testserver.ErrLost)
		c.settle(ghost, testserver.Settlement{State: testserver.Free}, nil)
		c.take(c.claim("k", long))
	}},
	{"settle/the answer is the store's own", "What the caller does to its answer after Settle does not change what is stored.", func(c *storeCase) {
		claim := c.claim("k", long)
		h := c.take(claim)
		a := sampleAnswer()
		c.settle(h, completed(a), nil)
		a.Body[0], a.Header[0].Value, a.Status = 'X', "X", 500
		c.sameAnswer(c.refused(again(claim), testserver.Completed, h).Answer, sampleAnswer())
	}},
	{"settle/an empty answer is an answer", "An answer without fields and body comes back as such.", func(c *storeCase) {
		claim := c.claim("k", long)
		h := c.take(claim)
		c.settle(h, completed(&testserver.Answer{Status: 204}), nil)
		c.settle(h, completed(&testserver.Answer{Status: 204, Header: []testserver.Field{}, Body: []byte{}}), nil)
		c.sameAnswer(c.refused(again(claim), testserver.Completed, h).Answer, &testserver.Answer{Status: 204})
	}},
	{"settle/large answers are kept whole", "An answer of a megabyte comes back byte by byte.", func(c *storeCase) {
		claim := c.claim("k", long)
		h := c.take(claim)
		want := &testserver.Answer{Status: 200, Body: make([]byte, 1<<20)}
		for i := range want.Body {
			want.Body[i] = byte(i * 7)
		}
		c.settle(h, completed(want), nil)
		if got := c.ask(again(claim)).Answer; got == nil || string(got.Body) != string(want.Body) {
			c.errorf("the body is another one")
		}
	}},
	{"settle/an end after the retention is kept for another", "An end that comes when the retention is over is kept for another retention, since a client may still ask.", func(c *storeCase) {
		for retention := 50 * time.Millisecond; retention < 10*time.Second; retention *= 2 {
			claim := c.claim(retention.String(), long)
			claim.Retention = retention
			h := c.take(claim)
			time.Sleep(2 * retention)
			begun := time.Now()
			c.settle(h, completed(sampleAnswer()), nil)
			r := c.ask(again(claim))
			if time.Since(begun) < retention { // else the machine was too slow to tell
				c.stands(r, testserver.Completed, h)
				return
			}
		}
	}},
}

var freeRules = []storeRule{
	{"free/a freed key can be taken by anyone", "Free removes the record: the key can be claimed at once, by another request as well.", func(c *storeCase) { // servers.md B20, B26, B40
		claim := c.claim("k", long)
		h := c.take(claim)
		c.settle(h, testserver.Settlement{State: testserver.Free}, nil)
		if r := c.look(claim.ID); r.State != testserver.Free {
			c.errorf("after Free the record is %s", describe(r))
		}
		next := again(claim)
		next.Fingerprint[0]++
		c.take(next)
	}},
	{"free/not once the effect has started", "Free is refused with ErrStarted once the effect has started, by the claim or by a renewal; the record stays.", func(c *storeCase) { // servers.md B14
		claim := c.claim("claimed", long)
		claim.Started = true
		h := c.take(claim)
		c.settle(h, testserver.Settlement{State: testserver.Free}, testserver.ErrStarted)
		c.refused(again(claim), testserver.Pending, h)
		claim = c.claim("renewed", long)
		h = c.take(claim)
		h.Started = true
		c.renew(long, testserver.Renewed)(h)
		h.Started = false
		c.settle(h, testserver.Settlement{State: testserver.Free}, testserver.ErrStarted)
		c.refused(again(claim), testserver.Pending, h)
	}},
	{"free/it does not free the next claim", "A repeated Free of an old hold does not touch the claim that came after it.", func(c *storeCase) { // servers.md B9
		claim := c.claim("k", long)
		old := c.take(claim)
		c.settle(old, testserver.Settlement{State: testserver.Free}, nil)
		next := again(claim)
		h := c.take(next)
		c.settle(old, testserver.Settlement{State: testserver.Free}, testserver.ErrLost)
		c.stands(c.look(claim.ID), testserver.Pending, h)
	}},
}
