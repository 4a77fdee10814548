package semeltest

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/semel-go/semel/testserver"
)

// TestStore holds a store to every sentence of [testserver.Store], and of [testserver.Transactor] if it is one. Each case
// is a subtest with a store of its own; the function may return the same store again, since every case makes up its scopes.
// It runs in real time, in about two seconds.
//
//	func TestStore(t *testing.T) {
//		semeltest.TestStore(t, func(t *testing.T) testserver.Store { return new(testserver.MemStore) })
//	}
func TestStore(t *testing.T, new func(t *testing.T) testserver.Store) {
	for _, r := range storeRules() {
		t.Run(r.name, func(t *testing.T) {
			if v := r.violation(t.Context(), new(t)); v != nil {
				t.Error(v)
			}
		})
	}
}

// CheckStore does what [TestStore] does, outside of tests or in a testing/synctest bubble. The error joins a *[Violation]
// for each broken rule.
func CheckStore(ctx context.Context, s testserver.Store) error {
	return checkAll(ctx, storeRules(), func(r storeRule) *Violation { return r.violation(ctx, s) })
}

// A storeRule is one case of TestStore.
type storeRule struct {
	name string
	rule string
	run  func(*storeCase)
}

func (r *storeRule) violation(ctx context.Context, s testserver.Store) *Violation {
	found := examine(ctx, func(c *check) {
		r.run(&storeCase{check: c, Store: s, scope: randomName()})
	})
	if len(found) == 0 {
		return nil
	}
	return &Violation{Case: r.name, Rule: r.rule, Found: strings.Join(found, "\n")}
}

func storeRules() (rules []storeRule) {
	for _, part := range [][]storeRule{claimRules, lapseRules, renewRules, settleRules, freeRules, waitRules, purgeRules, raceRules, transactRules} {
		rules = append(rules, part...)
	}
	return rules
}

// A storeCase is a store and what the cases do with it.
type storeCase struct {
	*check
	testserver.Store
	scope string
}

const (
	long  = time.Hour             // a lease or a retention that does not end during a case
	short = 20 * time.Millisecond // one that does
)

// over lets a short time pass.
func (c *storeCase) over() { time.Sleep(2 * short) }

// claim is one of the key, in the case's scope, by a new owner.
func (c *storeCase) claim(key string, lease time.Duration) testserver.Claim {
	return testserver.Claim{
		ID: testserver.ID{Scope: c.scope, Key: key}, Fingerprint: testserver.Fingerprint{1}, Owner: testserver.NewOwner(),
		Lease: lease, Retention: long,
	}
}

// by is the same claim by another owner.
func by(owner testserver.Owner, claim testserver.Claim) testserver.Claim {
	claim.Owner = owner
	return claim
}

func again(claim testserver.Claim) testserver.Claim { return by(testserver.NewOwner(), claim) }

// ask claims and returns the record as it stands.
func (c *storeCase) ask(claim testserver.Claim) testserver.Record {
	r, err := c.Claim(c.ctx, claim)
	if err != nil {
		c.fatalf("Claim failed: %v", err)
	}
	return r
}

// take claims and expects to succeed.
func (c *storeCase) take(claim testserver.Claim) testserver.Hold {
	r := c.ask(claim)
	if !r.HeldBy(claim.Owner) {
		c.fatalf("the claim did not succeed: the record is %s", describe(r))
	}
	return r.Hold()
}

// refused claims and expects to find a record in the state, as held by h.
func (c *storeCase) refused(claim testserver.Claim, want testserver.State, h testserver.Hold) testserver.Record {
	r := c.ask(claim)
	if r.HeldBy(claim.Owner) {
		c.fatalf("the claim took the key, though its record had to stay %s", stateName(want))
	}
	c.stands(r, want, h)
	return r
}

func (c *storeCase) stands(r testserver.Record, want testserver.State, h testserver.Hold) {
	if r.State != want {
		c.errorf("the record is %s, not %s", describe(r), stateName(want))
	}
	if want != testserver.Free && (r.Owner != h.Owner || r.Fence != h.Fence) {
		c.errorf("owner and fence are %x %d, not %x %d", r.Owner[:4], r.Fence, h.Owner[:4], h.Fence)
	}
}

func (c *storeCase) look(id testserver.ID) testserver.Record {
	r, err := c.Look(c.ctx, id)
	if err != nil {
		c.fatalf("Look failed: %v", err)
	}
	return r
}

// settle ends the hold and expects this error, or none.
func (c *storeCase) settle(h testserver.Hold, s testserver.Settlement, want error) {
	switch err := c.Settle(c.ctx, h, s); {
	case want == nil && err != nil:
		c.fatalf("Settle to %s failed: %v", stateName(s.State), err)
	case want != nil && !errors.Is(err, want):
		c.fatalf("Settle to %s returned %v, not %v", stateName(s.State), err, want)
	}
}

func (c *storeCase) renew(lease time.Duration, want ...testserver.Renewal) func(...testserver.Hold) {
	return func(holds ...testserver.Hold) {
		got, err := c.Renew(c.ctx, lease, holds)
		switch {
		case err != nil:
			c.fatalf("Renew failed: %v", err)
		case len(got) != len(want):
			c.fatalf("Renew reports on %d holds of %d", len(got), len(want))
		}
		for i := range want {
			if got[i] != want[i] {
				c.errorf("Renew says %s of hold %d, not %s", renewalName(got[i]), i+1, renewalName(want[i]))
			}
		}
	}
}

// an answer that a careless store spoils: fields in order, several of one name, any bytes.
func sampleAnswer() *testserver.Answer {
	return &testserver.Answer{Status: 201, Body: []byte("{\"a\": 1.50,\x00\xff}\n"), Header: []testserver.Field{
		{Name: "Link", Value: `</a>; rel="next", </b>`}, {Name: "Location", Value: "/t/1"}, {Name: "Link", Value: ""}}}
}

func completed(a *testserver.Answer) testserver.Settlement {
	return testserver.Settlement{State: testserver.Completed, Answer: a}
}

func (c *storeCase) sameAnswer(got, want *testserver.Answer) {
	if got == nil {
		c.errorf("the record has no answer")
		return
	}
	if got.Status != want.Status || string(got.Body) != string(want.Body) || !equalFields(got.Header, want.Header) {
		c.errorf("the answer is %d %q %q, not %d %q %q", got.Status, got.Header, got.Body, want.Status, want.Header, want.Body)
	}
}

func equalFields(a, b []testserver.Field) bool {
	if len(a) != len(b) {
		return false
	}
	for i := range a {
		if a[i] != b[i] {
			return false
		}
	}
	return true
}
