package semeltest

import (
	"time"

	"github.com/semel-go/semel/testserver"
)

var claimRules = []storeRule{
	{"claim/a key without a record is taken", "A claim takes a key without a record, and returns the record as it then stands.", func(c *storeCase) {
		claim := c.claim("k", long)
		claim.Started = true
		r := c.ask(claim)
		if !r.HeldBy(claim.Owner) || r.ID != claim.ID || r.Fingerprint != claim.Fingerprint || r.Fence < 1 || !r.Started || r.Answer != nil {
			c.errorf("the record is %s of %q, answer %v", describe(r), r.ID, r.Answer)
		}
		if r.Left <= 0 || r.Left > long || r.Age < 0 || r.Age > long/2 {
			c.errorf("Left is %v of a lease of %v, Age is %v", r.Left, long, r.Age)
		}
		c.stands(c.look(claim.ID), testserver.Pending, r.Hold())
	}},
	{"claim/a repeat by the same owner finds its own record", "A repeated claim with the same owner finds its own record again, so that a lost answer is cured by asking again.", func(c *storeCase) { // servers.md B35
		claim := c.claim("k", long)
		h := c.take(claim)
		c.stands(c.ask(claim), testserver.Pending, h)
		c.take(claim)
	}},
	{"claim/a pending key is not taken", "A pending record whose lease runs is not taken; the claim returns it as it stands.", func(c *storeCase) {
		claim := c.claim("k", long)
		h := c.take(claim)
		c.refused(again(claim), testserver.Pending, h)
		c.settle(h, completed(sampleAnswer()), nil)
	}},
	{"claim/a completed key returns its answer", "A completed record is not taken; its answer comes back with its status, its fields in their order, and its bytes.", func(c *storeCase) { // servers.md B27, B31
		claim := c.claim("k", long)
		h := c.take(claim)
		c.settle(h, completed(sampleAnswer()), nil)
		c.sameAnswer(c.refused(again(claim), testserver.Completed, h).Answer, sampleAnswer())
		c.sameAnswer(c.look(claim.ID).Answer, sampleAnswer())
	}},
	{"claim/a tombstone returns its status and fields", "A tombstone is not taken; its answer comes back without a body.", func(c *storeCase) { // servers.md B16, B18
		claim := c.claim("k", long)
		h := c.take(claim)
		want := &testserver.Answer{Status: 201, Header: sampleAnswer().Header}
		c.settle(h, testserver.Settlement{State: testserver.Tombstone, Answer: want}, nil)
		c.sameAnswer(c.refused(again(claim), testserver.Tombstone, h).Answer, want)
	}},
	{"claim/another fingerprint changes nothing", "A record with another fingerprint is never touched, pending or completed, and shows its own.", func(c *storeCase) {
		claim := c.claim("k", long)
		h := c.take(claim)
		other := again(claim)
		other.Fingerprint[31]++
		if r := c.refused(other, testserver.Pending, h); r.Fingerprint != claim.Fingerprint {
			c.errorf("the record shows the fingerprint of the claim that was refused")
		}
		c.settle(h, completed(sampleAnswer()), nil)
		if r := c.refused(other, testserver.Completed, h); r.Fingerprint != claim.Fingerprint {
			c.errorf("the completed record shows the fingerprint of the claim that was refused")
		}
	}},
	{"claim/scopes are apart", "An ID is scope and key: the same key in another scope is another key, and so are scopes and keys that are equal when joined.", func(c *storeCase) { // servers.md B24
		for _, id := range []testserver.ID{{Scope: c.scope, Key: "ab"}, {Scope: c.scope + "a", Key: "b"}, {Scope: c.scope + "ab", Key: ""}, {Scope: c.scope + "/", Key: "ab"}, {Scope: c.scope, Key: "/ab"}} {
			claim := c.claim("", long)
			claim.ID = id
			if r := c.ask(claim); !r.HeldBy(claim.Owner) {
				c.errorf("%q is not free: %s", id, describe(r))
			}
		}
	}},
	{"claim/keys are arbitrary bytes", "Scope and key are arbitrary bytes, told apart exactly.", func(c *storeCase) {
		for _, key := range []string{"k", "K", "k ", " k", "", "\x00", "k\x00", "\xff\xfe", "ÿþ", `'";--\`, "k%", "é", "e\u0301"} {
			claim := c.claim(key, long)
			if r := c.ask(claim); !r.HeldBy(claim.Owner) {
				c.errorf("key %q is not free: %s", key, describe(r))
			}
		}
	}},
	{"claim/an expired answer makes way", "A claim takes a key whose terminal record has expired, whatever its fingerprint, and nothing of the old one is left.", func(c *storeCase) {
		claim := c.claim("k", long)
		claim.Retention = short
		h := c.take(claim)
		c.settle(h, completed(sampleAnswer()), nil)
		c.over()
		next := again(claim)
		next.Fingerprint[0]++
		r := c.ask(next)
		if !r.HeldBy(next.Owner) || r.Answer != nil || r.Fingerprint != next.Fingerprint {
			c.errorf("the record is %s, answer %v", describe(r), r.Answer)
		}
		if r.Age > long/2 {
			c.errorf("Age is %v since the claim", r.Age)
		}
		c.settle(h, completed(sampleAnswer()), testserver.ErrLost)
	}},
	{"claim/an answer is kept for its retention", "Retention counts from the first claim; until it is over the answer is there.", func(c *storeCase) {
		claim := c.claim("k", long)
		h := c.take(claim)
		c.settle(h, completed(sampleAnswer()), nil)
		c.over()
		c.refused(again(claim), testserver.Completed, h)
	}},
}

var lapseRules = []storeRule{
	{"lapse/a lapsed key is taken over with the next fence", "A pending record whose lease has lapsed is taken over by the same request if its effect has not started, with the claim's owner and the next fence.", func(c *storeCase) { // servers.md B5, B38
		claim := c.claim("k", short)
		h := c.take(claim)
		c.over()
		next := again(claim)
		next.Lease = long
		r := c.ask(next)
		if !r.HeldBy(next.Owner) || r.Fence <= h.Fence || r.Left <= 0 {
			c.errorf("the record is %s; the fence before was %d", describe(r), h.Fence)
		}
		if r.Age < short {
			c.errorf("Age is %v, though the first claim is older than %v", r.Age, short)
		}
	}},
	{"lapse/the former owner has lost", "After a takeover the former owner can neither complete, nor free, nor renew (faults.md 20).", func(c *storeCase) { // servers.md B9, B10
		claim := c.claim("k", short)
		old := c.take(claim)
		c.over()
		next := again(claim)
		next.Lease = long
		h := c.take(next)
		c.settle(old, completed(sampleAnswer()), testserver.ErrLost)
		c.settle(old, testserver.Settlement{State: testserver.Free}, testserver.ErrLost)
		c.settle(old, testserver.Settlement{State: testserver.Unknown}, testserver.ErrLost)
		c.renew(long, testserver.Lost)(old)
		c.stands(c.look(claim.ID), testserver.Pending, h)
		c.settle(h, completed(sampleAnswer()), nil)
	}},
	{"lapse/the owner is not its fence", "A hold is owner and fence: the owner of the record with an older fence has lost.", func(c *storeCase) {
		claim := c.claim("k", short)
		h := c.take(claim)
		stale := h
		stale.Fence--
		c.settle(stale, completed(sampleAnswer()), testserver.ErrLost)
		c.renew(long, testserver.Lost)(stale)
		stranger := h
		stranger.Owner = testserver.NewOwner()
		c.settle(stranger, completed(sampleAnswer()), testserver.ErrLost)
		c.renew(long, testserver.Lost)(stranger)
	}},
	{"lapse/a started effect turns unknown", "A lapsed record whose effect has started turns unknown, keeping owner and fence, and is never taken.", func(c *storeCase) { // servers.md B7
		claim := c.claim("k", short)
		claim.Started = true
		h := c.take(claim)
		c.over()
		c.refused(again(claim), testserver.Unknown, h)
		c.over()
		c.refused(again(claim), testserver.Unknown, h)
		c.stands(c.look(claim.ID), testserver.Unknown, h)
	}},
	{"lapse/past RerunFor it turns unknown", "A lapsed record is re-run only within RerunFor of its first claim; after that it turns unknown.", func(c *storeCase) {
		claim := c.claim("k", short)
		claim.RerunFor = time.Millisecond
		h := c.take(claim)
		c.over()
		c.refused(again(claim), testserver.Unknown, h)
		patient := c.claim("patient", short)
		patient.RerunFor = long
		c.take(patient)
		c.over()
		c.take(again(patient))
	}},
	{"lapse/another fingerprint does not take over", "A lapsed record with another fingerprint is not touched: neither taken over nor turned unknown.", func(c *storeCase) {
		claim := c.claim("k", short)
		claim.Started = true
		h := c.take(claim)
		c.over()
		other := again(claim)
		other.Fingerprint[0]++
		c.refused(other, testserver.Pending, h)
		c.stands(c.look(claim.ID), testserver.Pending, h)
	}},
	{"lapse/an unknown record never expires", "Unknown records never expire: the key is not free again after its retention (faults.md 44).", func(c *storeCase) {
		claim := c.claim("k", long)
		claim.Retention = short
		h := c.take(claim)
		c.settle(h, testserver.Settlement{State: testserver.Unknown}, nil)
		c.over()
		c.refused(again(claim), testserver.Unknown, h)
	}},
	{"lapse/a pending record never expires", "Pending records never expire: a claim that works for longer than its retention keeps its key.", func(c *storeCase) {
		claim := c.claim("k", long)
		claim.Retention = short
		h := c.take(claim)
		c.over()
		c.refused(again(claim), testserver.Pending, h)
		c.settle(h, completed(sampleAnswer()), nil)
	}},
	{"lapse/looking changes nothing", "Look returns the record without changing it: a lapsed one is still pending, with nothing left; no record is Free.", func(c *storeCase) {
		claim := c.claim("k", short)
		if r := c.look(claim.ID); r.State != testserver.Free {
			c.errorf("without a record Look says %s", describe(r))
		}
		h := c.take(claim)
		c.over()
		for range 2 {
			r := c.look(claim.ID)
			if c.stands(r, testserver.Pending, h); r.Left != 0 {
				c.errorf("the lease has lapsed, and Left is %v", r.Left)
			}
		}
		c.take(again(claim))
	}},
}
