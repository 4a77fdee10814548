package semeltest_test

import (
	"context"
	"errors"
	"slices"
	"strings"
	"time"

	"github.com/semel-go/semel/testserver"
)

var badClaims = []storeDefect{
	{"it drops what a claim said", "claim/a key without a record is taken", func() *badStore {
		return claiming(func(_ *badStore, c *testserver.Claim) { c.Started = false })
	}},
	{"its own record is a stranger's", "claim/a repeat by the same owner finds its own record", func() *badStore {
		return &badStore{claim: func(s *badStore, ctx context.Context, c testserver.Claim) (testserver.Record, error) {
			before, _ := s.MemStore.Look(ctx, c.ID)
			r, err := s.MemStore.Claim(ctx, c)
			if before.Owner == c.Owner {
				r.Owner = testserver.NewOwner()
			}
			return r, err
		}}
	}},
	{"a lease is too short", "claim/a pending key is not taken", func() *badStore {
		return claiming(func(_ *badStore, c *testserver.Claim) { c.Lease = 0 })
	}},
	{"fields are sorted", "claim/a completed key returns its answer", func() *badStore {
		return answering(func(a *testserver.Answer) {
			slices.SortFunc(a.Header, func(a, b testserver.Field) int { return strings.Compare(a.Name, b.Name) })
		})
	}},
	{"a tombstone forgets its status", "claim/a tombstone returns its status and fields", func() *badStore {
		return settling(func(_ *badStore, _ *testserver.Hold, e *testserver.Settlement) {
			if e.State == testserver.Tombstone {
				e.Answer = &testserver.Answer{Status: 200}
			}
		})
	}},
	{"a claim leaves its fingerprint", "claim/another fingerprint changes nothing", func() *badStore {
		return &badStore{claim: func(s *badStore, ctx context.Context, c testserver.Claim) (testserver.Record, error) {
			r, err := s.MemStore.Claim(ctx, c)
			r.Fingerprint = c.Fingerprint
			return r, err
		}}
	}},
	{"the key forgets its scope", "claim/scopes are apart", func() *badStore {
		return claiming(func(_ *badStore, c *testserver.Claim) { c.ID = testserver.ID{Key: c.ID.Scope + c.ID.Key} })
	}},
	{"keys are trimmed", "claim/keys are arbitrary bytes", func() *badStore {
		return claiming(func(_ *badStore, c *testserver.Claim) { c.ID.Key = strings.TrimSpace(c.ID.Key) })
	}},
	{"answers never expire", "claim/an expired answer makes way", func() *badStore {
		return claiming(func(_ *badStore, c *testserver.Claim) { c.Retention = time.Hour })
	}},
	{"answers expire at once", "claim/an answer is kept for its retention", func() *badStore {
		return claiming(func(_ *badStore, c *testserver.Claim) { c.Retention = time.Millisecond })
	}},
	{"nobody takes over", "lapse/a lapsed key is taken over with the next fence", func() *badStore {
		return claiming(func(_ *badStore, c *testserver.Claim) { c.Lease = time.Hour })
	}},
	{"an end is not fenced", "lapse/the former owner has lost", func() *badStore {
		return settling(func(s *badStore, h *testserver.Hold, _ *testserver.Settlement) {
			if r, _ := s.MemStore.Look(context.Background(), h.ID); r.State == testserver.Pending {
				*h = r.Hold()
			}
		})
	}},
	{"the fence is not compared", "lapse/the owner is not its fence", func() *badStore {
		return settling(func(s *badStore, h *testserver.Hold, _ *testserver.Settlement) {
			if r, _ := s.MemStore.Look(context.Background(), h.ID); r.Owner == h.Owner {
				h.Fence = r.Fence
			}
		})
	}},
	{"what has started is run again", "lapse/a started effect turns unknown", func() *badStore {
		return claiming(func(_ *badStore, c *testserver.Claim) { c.Started = false })
	}},
	{"RerunFor is ignored", "lapse/past RerunFor it turns unknown", func() *badStore {
		return claiming(func(_ *badStore, c *testserver.Claim) { c.RerunFor = 0 })
	}},
	{"a takeover does not compare fingerprints", "lapse/another fingerprint does not take over", func() *badStore {
		return claiming(func(s *badStore, c *testserver.Claim) {
			if r, _ := s.MemStore.Look(context.Background(), c.ID); r.State == testserver.Pending {
				c.Fingerprint = r.Fingerprint
			}
		})
	}},
	{"unknown means free", "lapse/an unknown record never expires", func() *badStore {
		return claiming(func(s *badStore, c *testserver.Claim) {
			if r, _ := s.MemStore.Look(context.Background(), c.ID); r.State == testserver.Unknown {
				_ = s.MemStore.Settle(context.Background(), r.Hold(), testserver.Settlement{State: testserver.Free})
			}
		})
	}},
	{"pending records expire", "lapse/a pending record never expires", func() *badStore {
		return claiming(func(_ *badStore, c *testserver.Claim) { c.Lease = min(c.Lease, c.Retention) })
	}},
	{"looking settles what has lapsed", "lapse/looking changes nothing", func() *badStore {
		return &badStore{look: func(s *badStore, ctx context.Context, id testserver.ID) (testserver.Record, error) {
			if r, _ := s.MemStore.Look(ctx, id); r.State == testserver.Pending && r.Left == 0 {
				s.freed(ctx, id, testserver.Unknown)
			}
			return s.MemStore.Look(ctx, id)
		}}
	}},
}

var badEnds = []storeDefect{
	{"a renewal does nothing", "renew/it extends the lease", func() *badStore {
		return &badStore{renew: func(_ *badStore, _ context.Context, _ time.Duration, holds []testserver.Hold) ([]testserver.Renewal, error) {
			return make([]testserver.Renewal, len(holds)), nil
		}}
	}},
	{"renewals are reported backwards", "renew/it reports on each hold in order", func() *badStore {
		return &badStore{renew: func(s *badStore, ctx context.Context, lease time.Duration, holds []testserver.Hold) ([]testserver.Renewal, error) {
			r, err := s.MemStore.Renew(ctx, lease, holds)
			slices.Reverse(r)
			return r, err
		}}
	}},
	{"it renews ten at most", "renew/many holds at once", func() *badStore {
		return &badStore{renew: func(s *badStore, ctx context.Context, lease time.Duration, holds []testserver.Hold) ([]testserver.Renewal, error) {
			return s.MemStore.Renew(ctx, lease, holds[:min(10, len(holds))])
		}}
	}},
	{"the effect mark is dropped", "renew/it marks the effect for good", func() *badStore {
		return &badStore{renew: func(s *badStore, ctx context.Context, lease time.Duration, holds []testserver.Hold) ([]testserver.Renewal, error) {
			holds = slices.Clone(holds)
			for i := range holds {
				holds[i].Started = false
			}
			return s.MemStore.Renew(ctx, lease, holds)
		}}
	}},
	{"unknown stays unknown", "renew/it revives its own unknown record", func() *badStore {
		return &badStore{renew: func(s *badStore, ctx context.Context, lease time.Duration, holds []testserver.Hold) ([]testserver.Renewal, error) {
			for _, h := range holds {
				if r, _ := s.MemStore.Look(ctx, h.ID); r.State == testserver.Unknown {
					return slices.Repeat([]testserver.Renewal{testserver.Lost}, len(holds)), nil
				}
			}
			return s.MemStore.Renew(ctx, lease, holds)
		}}
	}},
	{"every renewal is granted", "renew/it does not revive an end", func() *badStore {
		return &badStore{renew: func(s *badStore, ctx context.Context, lease time.Duration, holds []testserver.Hold) ([]testserver.Renewal, error) {
			r, err := s.MemStore.Renew(ctx, lease, holds)
			return make([]testserver.Renewal, len(r)), err
		}}
	}},
	{"a second settle fails", "settle/it can be repeated", func() *badStore {
		return &badStore{settle: func(s *badStore, ctx context.Context, h testserver.Hold, e testserver.Settlement) error {
			if r, _ := s.MemStore.Look(ctx, h.ID); r.State == e.State && r.State != testserver.Unknown {
				return testserver.ErrLost
			}
			return s.MemStore.Settle(ctx, h, e)
		}}
	}},
	{"the last end wins", "settle/another end is refused", func() *badStore {
		return &badStore{settle: func(s *badStore, ctx context.Context, h testserver.Hold, e testserver.Settlement) error {
			err := s.MemStore.Settle(ctx, h, e)
			if r, _ := s.MemStore.Look(ctx, h.ID); errors.Is(err, testserver.ErrLost) && r.Owner == h.Owner {
				return nil
			}
			return err
		}}
	}},
	{"a late end is lost", "settle/a late end counts", func() *badStore {
		return &badStore{settle: func(s *badStore, ctx context.Context, h testserver.Hold, e testserver.Settlement) error {
			if r, _ := s.MemStore.Look(ctx, h.ID); r.State == testserver.Pending && r.Left == 0 {
				return testserver.ErrLost
			}
			return s.MemStore.Settle(ctx, h, e)
		}}
	}},
	{"unknown is for ever", "settle/unknown can be resolved", func() *badStore {
		return &badStore{settle: func(s *badStore, ctx context.Context, h testserver.Hold, e testserver.Settlement) error {
			if r, _ := s.MemStore.Look(ctx, h.ID); r.State == testserver.Unknown && e.State != testserver.Unknown {
				return testserver.ErrLost
			}
			return s.MemStore.Settle(ctx, h, e)
		}}
	}},
	{"an end makes its record", "settle/no claim, no end", func() *badStore {
		return &badStore{settle: func(s *badStore, ctx context.Context, h testserver.Hold, e testserver.Settlement) error {
			if r, _ := s.MemStore.Look(ctx, h.ID); r.State == testserver.Free {
				return nil
			}
			return s.MemStore.Settle(ctx, h, e)
		}}
	}},
	{"the answer stays the caller's", "settle/the answer is the store's own", func() *badStore {
		return &badStore{
			settle: func(s *badStore, ctx context.Context, h testserver.Hold, e testserver.Settlement) error {
				s.mu.Lock()
				defer s.mu.Unlock()
				if s.answers == nil {
					s.answers = make(map[testserver.ID]*testserver.Answer)
				}
				s.answers[h.ID] = e.Answer
				return s.MemStore.Settle(ctx, h, e)
			},
			claim: func(s *badStore, ctx context.Context, c testserver.Claim) (testserver.Record, error) {
				r, err := s.MemStore.Claim(ctx, c)
				s.mu.Lock()
				defer s.mu.Unlock()
				if r.State == testserver.Completed {
					r.Answer = s.answers[c.ID]
				}
				return r, err
			},
		}
	}},
	{"an answer without a body is none", "settle/an empty answer is an answer", func() *badStore {
		return settling(func(_ *badStore, _ *testserver.Hold, e *testserver.Settlement) {
			if e.Answer != nil && len(e.Answer.Body) == 0 {
				e.Answer = nil
			}
		})
	}},
	{"bodies are cut at 64 KiB", "settle/large answers are kept whole", func() *badStore {
		return answering(func(a *testserver.Answer) { a.Body = a.Body[:min(len(a.Body), 64<<10)] })
	}},
	{"a late answer expires at once", "settle/an end after the retention is kept for another", func() *badStore {
		return &badStore{claim: func(s *badStore, ctx context.Context, c testserver.Claim) (testserver.Record, error) {
			r, err := s.MemStore.Claim(ctx, c)
			if r.State == testserver.Completed && r.Age > c.Retention { // since the first claim
				return testserver.Record{ID: c.ID, State: testserver.Pending, Owner: c.Owner, Fence: r.Fence + 1}, nil
			}
			return r, err
		}}
	}},
	{"nothing is freed", "free/a freed key can be taken by anyone", func() *badStore {
		return settling(func(_ *badStore, _ *testserver.Hold, e *testserver.Settlement) {
			if e.State == testserver.Free {
				e.State = testserver.Unknown
			}
		})
	}},
	{"everything is freed", "free/not once the effect has started", func() *badStore {
		return &badStore{settle: func(s *badStore, ctx context.Context, h testserver.Hold, e testserver.Settlement) error {
			if err := s.MemStore.Settle(ctx, h, e); !errors.Is(err, testserver.ErrStarted) {
				return err
			}
			return nil
		}}
	}},
	{"a free is not fenced", "free/it does not free the next claim", func() *badStore {
		return settling(func(s *badStore, h *testserver.Hold, e *testserver.Settlement) {
			if r, _ := s.MemStore.Look(context.Background(), h.ID); e.State == testserver.Free && r.State == testserver.Pending {
				*h = r.Hold()
			}
		})
	}},
}

var badWaits = []storeDefect{
	{"waiters are not woken", "wait/it returns when the record is settled or freed", func() *badStore {
		return &badStore{wait: func(_ *badStore, ctx context.Context, _ testserver.ID) error {
			<-ctx.Done()
			return ctx.Err()
		}}
	}},
	{"waiters sleep through the lapse", "wait/it returns when the lease lapses", func() *badStore {
		return &badStore{wait: func(s *badStore, ctx context.Context, id testserver.ID) error {
			if r, _ := s.MemStore.Look(ctx, id); r.State == testserver.Pending {
				<-ctx.Done()
				return ctx.Err()
			}
			return nil
		}}
	}},
	{"no record, no end to the wait", "wait/nothing to wait for", func() *badStore {
		return &badStore{wait: func(s *badStore, ctx context.Context, id testserver.ID) error {
			if r, _ := s.MemStore.Look(ctx, id); r.State == testserver.Free {
				<-ctx.Done()
				return ctx.Err()
			}
			return s.MemStore.Wait(ctx, id)
		}}
	}},
	{"the wait has an error of its own", "wait/it ends with the context", func() *badStore {
		return &badStore{wait: func(s *badStore, ctx context.Context, id testserver.ID) error {
			if s.MemStore.Wait(ctx, id) != nil {
				return errors.New("waited in vain")
			}
			return nil
		}}
	}},
	{"the limit of a purge is a hint", "purge/it removes what has expired, so many at most", func() *badStore {
		return &badStore{purge: func(s *badStore, ctx context.Context, limit int) (int, error) {
			return s.MemStore.Purge(ctx, limit+100)
		}}
	}},
	{"a purge takes the pending, too", "purge/it leaves the rest alone", func() *badStore {
		return &badStore{
			claim: func(s *badStore, ctx context.Context, c testserver.Claim) (testserver.Record, error) {
				r, err := s.MemStore.Claim(ctx, c)
				s.known(c.ID, r.Hold())
				return r, err
			},
			purge: func(s *badStore, ctx context.Context, limit int) (int, error) {
				for _, id := range s.known(testserver.ID{}, testserver.Hold{}) {
					s.freed(ctx, id, testserver.Free)
				}
				return s.MemStore.Purge(ctx, limit)
			},
		}
	}},
	{"it looks, then acts", "race/one of many claims wins", func() *badStore {
		return &badStore{claim: func(s *badStore, ctx context.Context, c testserver.Claim) (testserver.Record, error) {
			before, _ := s.MemStore.Look(ctx, c.ID)
			time.Sleep(time.Millisecond)
			if r, err := s.MemStore.Claim(ctx, c); before.State != testserver.Free {
				return r, err
			}
			return testserver.Record{ID: c.ID, State: testserver.Pending, Owner: c.Owner, Fence: 1, Left: c.Lease}, nil
		}}
	}},
	{"the wrong one frees", "race/one holder at a time", func() *badStore {
		return &badStore{claim: func(s *badStore, ctx context.Context, c testserver.Claim) (testserver.Record, error) {
			r, err := s.MemStore.Claim(ctx, c)
			if !r.HeldBy(c.Owner) && !r.Started {
				s.freed(ctx, c.ID, testserver.Free)
			}
			return r, err
		}}
	}},
	{"completion looks, then acts", "race/takeover or completion, not both", func() *badStore {
		return &badStore{settle: func(s *badStore, ctx context.Context, h testserver.Hold, e testserver.Settlement) error {
			r, _ := s.MemStore.Look(ctx, h.ID)
			time.Sleep(time.Millisecond)
			if err := s.MemStore.Settle(ctx, h, e); r.Hold() != (testserver.Hold{ID: h.ID, Owner: h.Owner, Fence: h.Fence}) {
				return err
			}
			return nil
		}}
	}},
	{"a purge removes what is claimed meanwhile", "race/purge does not remove a fresh claim", func() *badStore {
		return &badStore{
			claim: func(s *badStore, ctx context.Context, c testserver.Claim) (testserver.Record, error) {
				r, err := s.MemStore.Claim(ctx, c)
				s.known(c.ID, r.Hold())
				return r, err
			},
			purge: func(s *badStore, ctx context.Context, limit int) (int, error) {
				ids := s.known(testserver.ID{}, testserver.Hold{})
				var doomed []testserver.ID
				for _, id := range ids {
					if r, _ := s.MemStore.Look(ctx, id); r.State == testserver.Free {
						doomed = append(doomed, id)
					}
				}
				time.Sleep(time.Millisecond)
				for _, id := range doomed {
					s.freed(ctx, id, testserver.Free)
				}
				return s.MemStore.Purge(ctx, limit)
			},
		}
	}},
	{"a repeat runs again", "transact/work runs once and its answer is kept", func() *badStore {
		return &badStore{transact: func(s *badStore, ctx context.Context, c testserver.Claim, wait time.Duration, w work) (testserver.Record, error) {
			c.ID.Key += string(c.Owner[:])
			return s.MemStore.Transact(ctx, c, wait, w)
		}}
	}},
	{"work runs before the record is read", "transact/another fingerprint does not run", func() *badStore {
		return &badStore{transact: func(s *badStore, ctx context.Context, c testserver.Claim, wait time.Duration, w work) (testserver.Record, error) {
			if r, _ := s.MemStore.Look(ctx, c.ID); r.State == testserver.Completed && r.Fingerprint != c.Fingerprint {
				_, _ = w(ctx)
			}
			return s.MemStore.Transact(ctx, c, wait, w)
		}}
	}},
	{"refusals are not kept", "transact/a refusal is kept", func() *badStore {
		return &badStore{transact: func(s *badStore, ctx context.Context, c testserver.Claim, wait time.Duration, w work) (testserver.Record, error) {
			a, err := w(ctx)
			if err != nil || a.Status >= 400 {
				return testserver.Record{ID: c.ID}, err
			}
			return s.MemStore.Transact(ctx, c, wait, func(context.Context) (*testserver.Answer, error) { return a, nil })
		}}
	}},
	{"an error leaves its key", "transact/an error leaves nothing", func() *badStore {
		return &badStore{transact: func(s *badStore, ctx context.Context, c testserver.Claim, wait time.Duration, w work) (testserver.Record, error) {
			r, err := s.MemStore.Transact(ctx, c, wait, w)
			if err != nil && !errors.Is(err, testserver.ErrBusy) {
				_, _ = s.MemStore.Claim(ctx, c)
			}
			return r, err
		}}
	}},
	{"it never says that the key is in use", "transact/a concurrent claim waits, then is told to come back", func() *badStore {
		return &badStore{transact: func(s *badStore, ctx context.Context, c testserver.Claim, _ time.Duration, w work) (testserver.Record, error) {
			r, err := s.MemStore.Transact(ctx, c, 0, w)
			if errors.Is(err, testserver.ErrBusy) {
				return testserver.Record{ID: c.ID, State: testserver.Pending}, nil
			}
			return r, err
		}}
	}},
	{"each gets the answer of its own work", "transact/one of many runs", func() *badStore {
		return &badStore{transact: func(s *badStore, ctx context.Context, c testserver.Claim, wait time.Duration, w work) (testserver.Record, error) {
			a, err := w(ctx)
			if err != nil {
				return testserver.Record{}, err
			}
			_, err = s.MemStore.Transact(ctx, c, wait, func(context.Context) (*testserver.Answer, error) { return a, nil })
			return testserver.Record{ID: c.ID, State: testserver.Completed, Owner: c.Owner, Fingerprint: c.Fingerprint, Answer: a}, err
		}}
	}},
	{"transactions never expire", "transact/an expired answer makes way", func() *badStore {
		return &badStore{transact: func(s *badStore, ctx context.Context, c testserver.Claim, wait time.Duration, w work) (testserver.Record, error) {
			c.Retention = time.Hour
			return s.MemStore.Transact(ctx, c, wait, w)
		}}
	}},
}
