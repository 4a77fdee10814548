package pgstore

import (
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/semel-go/semel/testserver"
)

// flights are the transactions of this process by key, at most one each.
type flights struct {
	mu sync.Mutex // guards by
	by map[place]*flight
}

type flight struct {
	once    sync.Once
	working chan struct{} // closed when the claim has succeeded and the work begins
	landed  chan struct{} // closed once the rest is set
	record  testserver.Record
	known   bool // the record is committed
}

// claiming bounds how long a request that is not to wait does so for one that is just claiming the key. That one may find
// the answer, and then both have it: or else of many repeats at the same time all but one would hear that the operation is
// in progress, though it is done.
const claiming = 250 * time.Millisecond

// board returns a flight to land, or the record that another one has just committed or found.
func (fs *flights) board(ctx context.Context, p place, wait time.Duration) (*flight, testserver.Record, error) {
	if f, mine := fs.enter(p); mine {
		return f, testserver.Record{}, nil
	}
	patience, grace := time.NewTimer(max(wait, 0)), time.NewTimer(max(wait, claiming))
	defer patience.Stop()
	defer grace.Stop()
	busy := fmt.Errorf("%w: another request of this process holds it", testserver.ErrBusy)
	waited := false
	for {
		other, mine := fs.enter(p)
		if mine {
			return other, testserver.Record{}, nil
		}
		var working chan struct{} // nil: it may end in time
		if waited {
			working = other.working
		}
		select {
		case <-other.landed:
			if other.known {
				return nil, other.record, nil
			}
		case <-patience.C:
			waited = true
		case <-working:
			return nil, testserver.Record{}, busy
		case <-grace.C:
			return nil, testserver.Record{}, busy
		case <-ctx.Done():
			return nil, testserver.Record{}, errDefinite{context.Cause(ctx)}
		}
	}
}

// begin says that the work begins. The work may be run again.
func (f *flight) begin() { f.once.Do(func() { close(f.working) }) }

func (fs *flights) enter(p place) (f *flight, mine bool) {
	fs.mu.Lock()
	defer fs.mu.Unlock()
	if f := fs.by[p]; f != nil {
		return f, false
	}
	if fs.by == nil {
		fs.by = map[place]*flight{}
	}
	f = &flight{working: make(chan struct{}), landed: make(chan struct{})}
	fs.by[p] = f
	return f, true
}

func (fs *flights) land(p place, f *flight, r testserver.Record, known bool) {
	fs.mu.Lock()
	delete(fs.by, p)
	fs.mu.Unlock()
	f.record, f.known = r, known
	close(f.landed)
}
