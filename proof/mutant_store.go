package proof

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/semel-go/semel/testserver"
)

// work is what a transaction does.
type work = func(context.Context) (*testserver.Answer, error)

// forgetful is a store that can be made to forget a key: it goes on under another name.
type forgetful struct {
	inner
	mu     sync.Mutex
	n      int
	names  map[testserver.ID]testserver.ID
	owners map[testserver.Owner]testserver.ID
}

func forgets(s inner) forgetful {
	return forgetful{inner: s, names: make(map[testserver.ID]testserver.ID), owners: make(map[testserver.Owner]testserver.ID)}
}

func (s *forgetful) name(id testserver.ID) testserver.ID {
	s.mu.Lock()
	defer s.mu.Unlock()
	if name, ok := s.names[id]; ok {
		return name
	}
	return id
}

func (s *forgetful) forget(id testserver.ID) testserver.ID {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.n++
	s.names[id] = testserver.ID{Scope: id.Scope, Key: fmt.Sprintf("%s~%d", id.Key, s.n)}
	return s.names[id]
}

func (s *forgetful) claim(ctx context.Context, c testserver.Claim, name testserver.ID) (testserver.Record, error) {
	id := c.ID
	c.ID = name
	s.mu.Lock()
	s.owners[c.Owner] = name
	s.mu.Unlock()
	rec, err := s.inner.Claim(ctx, c)
	rec.ID = id
	return rec, err
}

// held names the holds as the store knows them.
func (s *forgetful) held(h testserver.Hold) testserver.Hold {
	s.mu.Lock()
	defer s.mu.Unlock()
	if name, ok := s.owners[h.Owner]; ok {
		h.ID = name
	}
	return h
}

func (s *forgetful) Claim(ctx context.Context, c testserver.Claim) (testserver.Record, error) {
	return s.claim(ctx, c, s.name(c.ID))
}

func (s *forgetful) Renew(ctx context.Context, lease time.Duration, holds []testserver.Hold) ([]testserver.Renewal, error) {
	named := make([]testserver.Hold, len(holds))
	for i, h := range holds {
		named[i] = s.held(h)
	}
	return s.inner.Renew(ctx, lease, named)
}

func (s *forgetful) Settle(ctx context.Context, h testserver.Hold, e testserver.Settlement) error {
	return s.inner.Settle(ctx, s.held(h), e)
}

func (s *forgetful) Look(ctx context.Context, id testserver.ID) (testserver.Record, error) {
	rec, err := s.inner.Look(ctx, s.name(id))
	rec.ID = id
	return rec, err
}

func (s *forgetful) Wait(ctx context.Context, id testserver.ID) error {
	return s.inner.Wait(ctx, s.name(id))
}

func (s *forgetful) Transact(ctx context.Context, c testserver.Claim, wait time.Duration, do work) (testserver.Record, error) {
	id := c.ID
	c.ID = s.name(id)
	rec, err := s.inner.Transact(ctx, c, wait, do)
	rec.ID = id
	return rec, err
}

// lookThenClaim takes a key that was free a moment ago.
type lookThenClaim struct{ forgetful }

func (s *lookThenClaim) free(ctx context.Context, id testserver.ID) bool {
	rec, err := s.Look(ctx, id)
	if err != nil || rec.State != testserver.Free {
		return false
	}
	time.Sleep(time.Millisecond) // a read, then a write
	s.forget(id)
	return true
}

func (s *lookThenClaim) Claim(ctx context.Context, c testserver.Claim) (testserver.Record, error) {
	s.free(ctx, c.ID)
	return s.forgetful.Claim(ctx, c)
}

func (s *lookThenClaim) Transact(ctx context.Context, c testserver.Claim, wait time.Duration, do work) (testserver.Record, error) {
	s.free(ctx, c.ID)
	return s.forgetful.Transact(ctx, c, wait, do)
}

// notDurable forgets every other answer.
type notDurable struct {
	forgetful
	answers int
}

func (s *notDurable) lose(id testserver.ID) {
	s.mu.Lock()
	s.answers++
	n := s.answers
	s.mu.Unlock()
	if n%2 == 0 {
		s.forget(id)
	}
}

func (s *notDurable) Settle(ctx context.Context, h testserver.Hold, e testserver.Settlement) error {
	err := s.forgetful.Settle(ctx, h, e)
	if err == nil && e.State == testserver.Completed {
		s.lose(h.ID)
	}
	return err
}

func (s *notDurable) Transact(ctx context.Context, c testserver.Claim, wait time.Duration, do work) (testserver.Record, error) {
	rec, err := s.forgetful.Transact(ctx, c, wait, do)
	if err == nil && rec.Owner == c.Owner {
		s.lose(c.ID)
	}
	return rec, err
}

type noFingerprint struct{ inner }

func (s noFingerprint) Claim(ctx context.Context, c testserver.Claim) (testserver.Record, error) {
	was := c.Fingerprint
	c.Fingerprint = testserver.Fingerprint{}
	rec, err := s.inner.Claim(ctx, c)
	rec.Fingerprint = was
	return rec, err
}

func (s noFingerprint) Transact(ctx context.Context, c testserver.Claim, wait time.Duration, do work) (testserver.Record, error) {
	was := c.Fingerprint
	c.Fingerprint = testserver.Fingerprint{}
	rec, err := s.inner.Transact(ctx, c, wait, do)
	rec.Fingerprint = was
	return rec, err
}

type pendingIsDone struct{ inner }

func (s pendingIsDone) done(c testserver.Claim) testserver.Record {
	return testserver.Record{ID: c.ID, State: testserver.Completed, Fingerprint: c.Fingerprint, Answer: &testserver.Answer{Status: 201, Body: []byte("{}")}}
}

func (s pendingIsDone) Claim(ctx context.Context, c testserver.Claim) (testserver.Record, error) {
	rec, err := s.inner.Claim(ctx, c)
	if err == nil && rec.State == testserver.Pending && rec.Owner != c.Owner && rec.Fingerprint == c.Fingerprint {
		return s.done(c), nil
	}
	return rec, err
}

func (s pendingIsDone) Transact(ctx context.Context, c testserver.Claim, wait time.Duration, do work) (testserver.Record, error) {
	rec, err := s.inner.Transact(ctx, c, wait, do)
	if errors.Is(err, testserver.ErrBusy) {
		return s.done(c), nil
	}
	return rec, err
}

type earlyPurge struct{ inner }

func (s earlyPurge) Claim(ctx context.Context, c testserver.Claim) (testserver.Record, error) {
	c.Retention = time.Second
	return s.inner.Claim(ctx, c)
}

func (s earlyPurge) Transact(ctx context.Context, c testserver.Claim, wait time.Duration, do work) (testserver.Record, error) {
	c.Retention = time.Second
	return s.inner.Transact(ctx, c, wait, do)
}

// shortLease lets every lease lapse at once, and nobody know.
type shortLease struct{ inner }

func (s shortLease) Claim(ctx context.Context, c testserver.Claim) (testserver.Record, error) {
	c.Lease = time.Millisecond
	return s.inner.Claim(ctx, c)
}

func (s shortLease) Renew(ctx context.Context, _ time.Duration, holds []testserver.Hold) ([]testserver.Renewal, error) {
	if holds[0].Started {
		return s.inner.Renew(ctx, time.Millisecond, holds)
	}
	return make([]testserver.Renewal, len(holds)), nil
}

// noFence lets whoever once had the key settle it, and keep it.
type noFence struct {
	inner
	mu   sync.Mutex
	ends map[testserver.ID]*testserver.Answer // of those who came too late
}

func (s *noFence) Claim(ctx context.Context, c testserver.Claim) (testserver.Record, error) {
	rec, err := s.inner.Claim(ctx, c)
	s.mu.Lock()
	defer s.mu.Unlock()
	if end := s.ends[c.ID]; err == nil && end != nil && rec.State == testserver.Completed {
		rec.Answer = end
	}
	return rec, err
}

func (s *noFence) Renew(ctx context.Context, lease time.Duration, holds []testserver.Hold) ([]testserver.Renewal, error) {
	renewals, err := s.inner.Renew(ctx, lease, holds)
	for i := range renewals {
		renewals[i] = testserver.Renewed
	}
	return renewals, err
}

func (s *noFence) Settle(ctx context.Context, h testserver.Hold, e testserver.Settlement) error {
	err := s.inner.Settle(ctx, h, e)
	if errors.Is(err, testserver.ErrLost) && e.State == testserver.Completed {
		s.mu.Lock()
		s.ends[h.ID] = e.Answer
		s.mu.Unlock()
		return nil
	}
	return err
}

type noTakeover struct{ inner }

func (s noTakeover) Claim(ctx context.Context, c testserver.Claim) (testserver.Record, error) {
	rec, err := s.inner.Look(ctx, c.ID)
	if err == nil && rec.State == testserver.Pending && rec.Left == 0 && rec.Owner != c.Owner && rec.Fingerprint == c.Fingerprint {
		return rec, nil
	}
	return s.inner.Claim(ctx, c)
}

// Wait waits for an owner that has died, too.
func (s noTakeover) Wait(ctx context.Context, id testserver.ID) error {
	if rec, err := s.inner.Look(ctx, id); err == nil && rec.State == testserver.Pending && rec.Left == 0 {
		<-ctx.Done()
		return ctx.Err()
	}
	return s.inner.Wait(ctx, id)
}

type errorKeeps struct{ inner }

func (s errorKeeps) Settle(ctx context.Context, h testserver.Hold, e testserver.Settlement) error {
	if e.State == testserver.Free {
		return nil
	}
	return s.inner.Settle(ctx, h, e)
}

// Renew does not give a lease up either.
func (s errorKeeps) Renew(ctx context.Context, lease time.Duration, holds []testserver.Hold) ([]testserver.Renewal, error) {
	if lease <= time.Millisecond {
		return make([]testserver.Renewal, len(holds)), nil
	}
	return s.inner.Renew(ctx, lease, holds)
}
