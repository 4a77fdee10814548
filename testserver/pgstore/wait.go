package pgstore

import (
	"context"
	"math/rand/v2"
	"sync"
	"time"

	"github.com/semel-go/semel/testserver"
)

// waiting are the keys that this process waits for. One goroutine polls for all of them, and runs while there are any.
type waiting struct {
	mu      sync.Mutex // guards all below
	keys    map[place][]chan error
	fresh   []place       // not polled yet
	kick    chan struct{} // tells the poller of fresh ones
	polling bool
}

// Wait is woken by a settlement in this process at once, by one elsewhere at the next poll, or by NOTIFY.
func (s *Store) Wait(ctx context.Context, id testserver.ID) error {
	p, woken := at(id), make(chan error, 1)
	w := &s.waiting
	w.mu.Lock()
	if w.keys == nil {
		w.keys, w.kick = map[place][]chan error{}, make(chan struct{}, 1)
	}
	if len(w.keys[p]) == 0 {
		w.fresh = append(w.fresh, p)
	}
	w.keys[p] = append(w.keys[p], woken)
	if !w.polling {
		w.polling = s.life.start(s.poll)
	}
	w.mu.Unlock()
	select {
	case w.kick <- struct{}{}:
	default:
	}
	if s.Notify && !s.Pooler {
		s.listen()
	}
	select {
	case err := <-woken:
		return err
	case <-ctx.Done():
		s.leave(p, woken)
		return context.Cause(ctx)
	case <-s.life.done():
		s.leave(p, woken)
		return errClosed
	}
}

// leave takes one waiter of a key away.
func (s *Store) leave(p place, woken chan error) {
	w := &s.waiting
	w.mu.Lock()
	defer w.mu.Unlock()
	left := w.keys[p][:0:0]
	for _, other := range w.keys[p] {
		if other != woken {
			left = append(left, other)
		}
	}
	if w.keys[p] = left; len(left) == 0 {
		delete(w.keys, p)
	}
}

// wake lets all waiters of a key go, here at once, elsewhere if notices are sent.
func (s *Store) wake(id testserver.ID) {
	s.release(at(id), nil)
	if s.Notify && !s.Pooler {
		s.notify(at(id))
	}
}

func (s *Store) release(p place, err error) {
	w := &s.waiting
	w.mu.Lock()
	chans := w.keys[p]
	delete(w.keys, p)
	w.mu.Unlock()
	for _, c := range chans {
		c <- err
	}
}

// poll asks for fresh keys at once and for all of them now and then. It ends with the last waiter.
func (s *Store) poll(life context.Context) {
	w := &s.waiting
	every := orElse(s.Poll, 50*time.Millisecond)
	tick := time.NewTimer(every)
	defer tick.Stop()
	for all := false; ; {
		places, more := w.take(all)
		if !more {
			return
		}
		if len(places) > 0 {
			s.pollFor(life, places)
		}
		if all {
			tick.Reset(every - rand.N(every/5+1))
		}
		select {
		case <-life.Done():
			w.stop()
			return
		case <-w.kick:
			all = false
		case <-tick.C:
			all = true
		}
	}
}

// take returns what is to be polled. Without any waiter it marks the poller as gone.
func (w *waiting) take(all bool) (places []place, more bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if len(w.keys) == 0 {
		w.polling, w.fresh = false, nil
		return nil, false
	}
	places, w.fresh = w.fresh, nil
	if all {
		places = make([]place, 0, len(w.keys))
		for p := range w.keys {
			places = append(places, p)
		}
	}
	return places, true
}

// recheck has all keys polled at once.
func (w *waiting) recheck() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.fresh = w.fresh[:0]
	for p := range w.keys {
		w.fresh = append(w.fresh, p)
	}
	select {
	case w.kick <- struct{}{}:
	default:
	}
}

func (w *waiting) stop() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.polling = false
}

// pollFor wakes the waiters of those keys that are no longer pending, or all of them with the error.
func (s *Store) pollFor(ctx context.Context, places []place) {
	still, err := s.still(ctx, places)
	for n, p := range places {
		if err != nil || !still[int64(n)] {
			s.release(p, err)
		}
	}
}

func (s *Store) still(ctx context.Context, places []place) (map[int64]bool, error) {
	ctx, cancel := s.limit(ctx)
	defer cancel()
	conn, err := s.acquire(ctx)
	if err != nil {
		return nil, s.failTable(err)
	}
	defer conn.Release()
	numbers := make([]int64, len(places))
	for n := range numbers {
		numbers[n] = int64(n)
	}
	rows, err := conn.Query(ctx, s.statements().still, places, numbers)
	if err != nil {
		return nil, s.failTable(err)
	}
	defer rows.Close()
	still := map[int64]bool{}
	for rows.Next() {
		var n int64
		if err := rows.Scan(&n); err != nil {
			return nil, s.failTable(err)
		}
		still[n] = true
	}
	if err := rows.Err(); err != nil {
		return nil, s.failTable(err)
	}
	return still, nil
}
