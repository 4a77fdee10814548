package semeltest_test

import (
	"bytes"
	"context"
	"errors"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/semel-go/semel/semeltest"
	"github.com/semel-go/semel/testserver"
)

// A badStore is a MemStore with one defect.
type badStore struct {
	testserver.MemStore
	mu      sync.Mutex
	answers map[testserver.ID]*testserver.Answer
	holds   map[testserver.ID]testserver.Hold

	claim    func(*badStore, context.Context, testserver.Claim) (testserver.Record, error)
	renew    func(*badStore, context.Context, time.Duration, []testserver.Hold) ([]testserver.Renewal, error)
	settle   func(*badStore, context.Context, testserver.Hold, testserver.Settlement) error
	look     func(*badStore, context.Context, testserver.ID) (testserver.Record, error)
	wait     func(*badStore, context.Context, testserver.ID) error
	purge    func(*badStore, context.Context, int) (int, error)
	transact func(*badStore, context.Context, testserver.Claim, time.Duration, work) (testserver.Record, error)
}

type work = func(context.Context) (*testserver.Answer, error)

func (s *badStore) Claim(ctx context.Context, c testserver.Claim) (testserver.Record, error) {
	if s.claim == nil {
		return s.MemStore.Claim(ctx, c)
	}
	return s.claim(s, ctx, c)
}

func (s *badStore) Renew(ctx context.Context, lease time.Duration, holds []testserver.Hold) ([]testserver.Renewal, error) {
	if s.renew == nil {
		return s.MemStore.Renew(ctx, lease, holds)
	}
	return s.renew(s, ctx, lease, holds)
}

func (s *badStore) Settle(ctx context.Context, h testserver.Hold, e testserver.Settlement) error {
	if s.settle == nil {
		return s.MemStore.Settle(ctx, h, e)
	}
	return s.settle(s, ctx, h, e)
}

func (s *badStore) Look(ctx context.Context, id testserver.ID) (testserver.Record, error) {
	if s.look == nil {
		return s.MemStore.Look(ctx, id)
	}
	return s.look(s, ctx, id)
}

func (s *badStore) Wait(ctx context.Context, id testserver.ID) error {
	if s.wait == nil {
		return s.MemStore.Wait(ctx, id)
	}
	return s.wait(s, ctx, id)
}

func (s *badStore) Purge(ctx context.Context, limit int) (int, error) {
	if s.purge == nil {
		return s.MemStore.Purge(ctx, limit)
	}
	return s.purge(s, ctx, limit)
}

func (s *badStore) Transact(ctx context.Context, c testserver.Claim, wait time.Duration, w work) (testserver.Record, error) {
	if s.transact == nil {
		return s.MemStore.Transact(ctx, c, wait, w)
	}
	return s.transact(s, ctx, c, wait, w)
}

// claiming changes claims before they reach the store.
func claiming(change func(*badStore, *testserver.Claim)) *badStore {
	return &badStore{claim: func(s *badStore, ctx context.Context, c testserver.Claim) (testserver.Record, error) {
		change(s, &c)
		return s.MemStore.Claim(ctx, c)
	}}
}

// settling changes settlements before they reach the store.
func settling(change func(*badStore, *testserver.Hold, *testserver.Settlement)) *badStore {
	return &badStore{settle: func(s *badStore, ctx context.Context, h testserver.Hold, e testserver.Settlement) error {
		change(s, &h, &e)
		return s.MemStore.Settle(ctx, h, e)
	}}
}

func changed(a *testserver.Answer, change func(*testserver.Answer)) *testserver.Answer {
	if a == nil {
		return nil
	}
	b := &testserver.Answer{Status: a.Status, Header: slices.Clone(a.Header), Body: bytes.Clone(a.Body)}
	change(b)
	return b
}

func answering(change func(*testserver.Answer)) *badStore {
	return settling(func(_ *badStore, _ *testserver.Hold, e *testserver.Settlement) { e.Answer = changed(e.Answer, change) })
}

// freed ends the record of the id, whoever holds it.
func (s *badStore) freed(ctx context.Context, id testserver.ID, state testserver.State) {
	if r, err := s.MemStore.Look(ctx, id); err == nil {
		_ = s.MemStore.Settle(ctx, r.Hold(), testserver.Settlement{State: state})
	}
}

// known returns the ids that were claimed, and remembers one more.
func (s *badStore) known(id testserver.ID, h testserver.Hold) []testserver.ID {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.holds == nil {
		s.holds = make(map[testserver.ID]testserver.Hold)
	}
	if id != (testserver.ID{}) {
		s.holds[id] = h
	}
	var ids []testserver.ID
	for id := range s.holds {
		ids = append(ids, id)
	}
	return ids
}

// A defect of a store, and the case that is there for it.
type storeDefect struct {
	defect string
	caught string
	store  func() *badStore
}

func TestEachCaseCatchesItsBadStore(t *testing.T) {
	for _, bad := range slices.Concat(badClaims, badEnds, badWaits) {
		t.Run(bad.defect, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				err := semeltest.CheckStore(t.Context(), bad.store())
				require.Error(t, err)
				require.Contains(t, cases(err), bad.caught)
			})
		})
	}
}

// cases returns the names of the cases that found something.
func cases(err error) (names []string) {
	if joined, ok := err.(interface{ Unwrap() []error }); ok {
		for _, e := range joined.Unwrap() {
			names = append(names, cases(e)...)
		}
	}
	var v *semeltest.Violation
	if errors.As(err, &v) && len(names) == 0 {
		names = append(names, v.Case)
	}
	return names
}
