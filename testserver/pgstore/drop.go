package pgstore

import (
	"context"
	"errors"
	"maps"
	"sync"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/semel-go/semel/testserver"
)

// ErrOwner means that an earlier claim by this owner failed and nobody knows whether its row is still to be deleted. A
// claim by a new owner is what to ask for.
var ErrOwner = errors.New("pgstore: an earlier claim by this owner is being freed")

// dropped are owners whose claims failed. Their channel is closed once freeing them has ended; they stay if a delete may
// still be on its way.
type dropped struct {
	mu     sync.Mutex // guards owners
	owners map[testserver.Owner]chan struct{}
}

// maxDropped bounds the owners that stay.
const maxDropped = 4096

func (d *dropped) add(o testserver.Owner) (freed chan struct{}) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if len(d.owners) >= maxDropped {
		maps.DeleteFunc(d.owners, func(_ testserver.Owner, freed chan struct{}) bool { return ended(freed) })
	}
	if d.owners == nil {
		d.owners = map[testserver.Owner]chan struct{}{}
	}
	freed = make(chan struct{})
	d.owners[o] = freed
	return freed
}

func (d *dropped) remove(o testserver.Owner) {
	d.mu.Lock()
	defer d.mu.Unlock()
	delete(d.owners, o)
}

func ended(c <-chan struct{}) bool {
	select {
	case <-c:
		return true
	default:
		return false
	}
}

// wait returns when no free of the owner's claim is under way that could hit a new one.
func (d *dropped) wait(ctx context.Context, o testserver.Owner) error {
	d.mu.Lock()
	freed := d.owners[o]
	d.mu.Unlock()
	if freed == nil {
		return nil
	}
	select {
	case <-freed:
	case <-ctx.Done():
		return errDefinite{context.Cause(ctx)}
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.owners[o] != nil { // a delete was sent and may still arrive
		return errDefinite{ErrOwner}
	}
	return nil
}

// drop frees in the background what a failed claim may have left, so that it does not block the key for a lease.
func (s *Store) drop(c testserver.Claim) {
	freed := s.dropped.add(c.Owner)
	run := func(life context.Context) {
		defer close(freed)
		if s.dropUntil(life, c) {
			s.dropped.remove(c.Owner)
		}
		s.wake(c.ID)
	}
	if !s.life.start(run) {
		close(freed)
	}
}

// dropUntil tries for a lease, at most a minute; after that the claim has lapsed, or nearly so. It reports whether no
// delete can be on its way any more.
func (s *Store) dropUntil(life context.Context, c testserver.Claim) bool {
	life, cancel := context.WithTimeout(life, min(c.Lease, time.Minute))
	defer cancel()
	certain := true
	for try := 1; ; try++ {
		err := s.dropOnce(life, c)
		if err == nil {
			return certain
		}
		certain = certain && !maybeDone(err)
		if pause(life, try, 20*time.Millisecond) != nil {
			return certain
		}
	}
}

// dropOnce claims once more before it deletes: the insert waits for one of ours that is just being committed, which the
// delete alone would not see.
func (s *Store) dropOnce(ctx context.Context, c testserver.Claim) error {
	ctx, cancel := s.limit(ctx)
	defer cancel()
	conn, err := s.acquire(ctx)
	if err != nil {
		return err
	}
	defer conn.Release()
	b := &pgx.Batch{}
	b.Queue(s.statements().insert, append(claimArgs(c), c.Started)...)
	b.Queue(s.statements().drop, at(c.ID), c.Owner[:])
	return conn.SendBatch(ctx, b).Close()
}
