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
	landed chan struct{} // closed once the rest is set
	record testserver.Record
	known  bool // the record is committed
}

// board returns a flight to land, or the record that another one has just committed.
func (fs *flights) board(ctx context.Context, p place, wait time.Duration) (*flight, testserver.Record, error) {
	timer := time.NewTimer(max(0, wait))
	defer timer.Stop()
	for {
		other, mine := fs.enter(p)
		if mine {
			return other, testserver.Record{}, nil
		}
		select {
		case <-other.landed:
			if other.known {
				return nil, other.record, nil
			}
		case <-timer.C:
			return nil, testserver.Record{}, fmt.Errorf("%w: another request of this process holds it", testserver.ErrBusy)
		case <-ctx.Done():
			return nil, testserver.Record{}, errDefinite{context.Cause(ctx)}
		}
	}
}

func (fs *flights) enter(p place) (f *flight, mine bool) {
	fs.mu.Lock()
	defer fs.mu.Unlock()
	if f := fs.by[p]; f != nil {
		return f, false
	}
	if fs.by == nil {
		fs.by = map[place]*flight{}
	}
	f = &flight{landed: make(chan struct{})}
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
