package testserver

import (
	"context"
	"slices"
	"sync"
	"time"
)

// A MemStore keeps claims in memory, for one process: a second process would run the operations of the first again. The
// zero MemStore is ready. It is a [Transactor] for effects that are in memory as well.
//
// It is bounded and never forgets a key before its time: when it is full, claims of new keys fail with [ErrFull].
type MemStore struct {
	MaxKeys  int   // if 0, 65536
	MaxBytes int64 // of stored answers, beyond which no new key is taken; if 0, 256 MiB

	mu      sync.Mutex
	records map[ID]*record
	running map[ID]chan struct{} // keys in a transaction; closed when it ends
	bytes   int64
}

// A record is replaced by none and changed in place; its mutex is the store's.
type record struct {
	state       State
	fingerprint Fingerprint
	owner       Owner
	fence       int64
	started     bool
	created     time.Time
	lease       time.Time // end of the lease
	expires     time.Time
	retention   time.Duration
	answer      *Answer
	changed     chan struct{} // closed when the record is no longer pending under this owner; nil if nobody waits
}

func (s *MemStore) Claim(ctx context.Context, c Claim) (Record, error) {
	for {
		s.mu.Lock()
		done := s.running[c.ID]
		if done == nil {
			break
		}
		s.mu.Unlock()
		select {
		case <-done:
		case <-ctx.Done():
			return Record{}, context.Cause(ctx)
		}
	}
	defer s.mu.Unlock()
	now := time.Now()
	r, err := s.takeable(c, now)
	if err != nil {
		return Record{}, err
	}
	if r == nil {
		return s.records[c.ID].view(c.ID, now), nil
	}
	r.state, r.owner, r.started = Pending, c.Owner, c.Started
	r.fence++
	r.lease = now.Add(c.Lease)
	return r.view(c.ID, now), nil
}

// takeable returns the record that the claim may take, a fresh one if there was none, or nil. The mutex is held.
func (s *MemStore) takeable(c Claim, now time.Time) (*record, error) {
	r := s.records[c.ID]
	switch {
	case r == nil || r.expired(now):
		s.remove(c.ID)
		if err := s.room(now); err != nil {
			return nil, err
		}
		fresh := &record{fingerprint: c.Fingerprint, created: now, expires: now.Add(c.Retention), retention: c.Retention}
		if r != nil {
			fresh.fence = r.fence
		}
		if s.records == nil {
			s.records = make(map[ID]*record)
		}
		s.records[c.ID] = fresh
		return fresh, nil
	case r.state != Pending || now.Before(r.lease) || r.fingerprint != c.Fingerprint || r.owner == c.Owner:
		return nil, nil
	case r.started || c.RerunFor > 0 && now.Sub(r.created) > c.RerunFor:
		r.state = Unknown
		r.wake()
		return nil, nil
	}
	r.wake()
	return r, nil
}

// room makes sure that one more key fits. Only expired answers make way.
func (s *MemStore) room(now time.Time) error {
	full := func() bool {
		return len(s.records) >= orDefault(s.MaxKeys, 1<<16) || s.bytes >= orDefault(s.MaxBytes, 256<<20)
	}
	if full() {
		s.purge(now, len(s.records))
	}
	if full() {
		return ErrFull
	}
	return nil
}

func (s *MemStore) remove(id ID) {
	if r := s.records[id]; r != nil {
		s.bytes -= r.answer.size()
		delete(s.records, id)
	}
}

func (s *MemStore) Renew(_ context.Context, lease time.Duration, holds []Hold) ([]Renewal, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	now := time.Now()
	renewals := make([]Renewal, len(holds))
	for i, h := range holds {
		r := s.held(h)
		if r == nil {
			renewals[i] = Lost
			continue
		}
		if end := now.Add(lease); end.Before(r.lease) {
			r.wake()
		}
		r.state, r.lease, r.started = Pending, now.Add(lease), r.started || h.Started
	}
	return renewals, nil
}

// held returns the record if it is pending or unknown under the hold.
func (s *MemStore) held(h Hold) *record {
	r := s.records[h.ID]
	if r == nil || r.owner != h.Owner || r.fence != h.Fence || r.state != Pending && r.state != Unknown {
		return nil
	}
	return r
}

func (s *MemStore) Settle(_ context.Context, h Hold, e Settlement) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	r := s.records[h.ID]
	switch {
	case r == nil && e.State == Free:
		return nil
	case s.held(h) == nil:
		if r != nil && r.owner == h.Owner && r.fence == h.Fence && r.state == e.State && r.answer.equal(e.Answer) {
			return nil
		}
		return ErrLost
	case e.State == Free && r.started:
		return ErrStarted
	case e.State == Free:
		s.remove(h.ID)
	default:
		s.end(r, e, time.Now())
	}
	r.wake()
	return nil
}

// end gives a record its end. One that comes when the retention is over is kept for another: a client may still ask.
func (s *MemStore) end(r *record, e Settlement, now time.Time) {
	r.state, r.answer = e.State, e.Answer.clone()
	s.bytes += r.answer.size()
	if !now.Before(r.expires) {
		r.expires = now.Add(r.retention)
	}
}

func (s *MemStore) Look(_ context.Context, id ID) (Record, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	now := time.Now()
	r := s.records[id]
	if r == nil || r.expired(now) {
		return Record{ID: id}, nil
	}
	return r.view(id, now), nil
}

func (s *MemStore) Wait(ctx context.Context, id ID) error {
	for {
		s.mu.Lock()
		r := s.records[id]
		var left time.Duration
		if r != nil && r.state == Pending {
			left = time.Until(r.lease)
		}
		if left <= 0 {
			s.mu.Unlock()
			return nil
		}
		if r.changed == nil {
			r.changed = make(chan struct{})
		}
		changed := r.changed
		s.mu.Unlock()
		lapse := time.NewTimer(left)
		select {
		case <-changed:
			lapse.Stop()
			return nil
		case <-lapse.C: // unless it was renewed
		case <-ctx.Done():
			lapse.Stop()
			return context.Cause(ctx)
		}
	}
}

func (s *MemStore) Purge(_ context.Context, limit int) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.purge(time.Now(), limit), nil
}

func (s *MemStore) purge(now time.Time, limit int) (n int) {
	for id, r := range s.records {
		if n >= limit {
			break
		}
		if r.expired(now) {
			s.remove(id)
			n++
		}
	}
	return n
}

func (r *record) expired(now time.Time) bool {
	return (r.state == Completed || r.state == Tombstone) && !now.Before(r.expires)
}

func (r *record) wake() {
	if r.changed != nil {
		close(r.changed)
		r.changed = nil
	}
}

func (r *record) view(id ID, now time.Time) Record {
	v := Record{ID: id, State: r.state, Fingerprint: r.fingerprint, Owner: r.owner, Fence: r.fence, Started: r.started,
		Age: now.Sub(r.created), Answer: r.answer}
	if r.state == Pending {
		v.Left = max(r.lease.Sub(now), 0)
	}
	return v
}

func (a *Answer) size() (n int64) {
	if a == nil {
		return 0
	}
	for _, f := range a.Header {
		n += int64(len(f.Name) + len(f.Value))
	}
	return n + int64(len(a.Body))
}

func (a *Answer) clone() *Answer {
	if a == nil {
		return nil
	}
	return &Answer{Status: a.Status, Header: slices.Clone(a.Header), Body: slices.Clone(a.Body)}
}

func (a *Answer) equal(b *Answer) bool {
	if a == nil || b == nil {
		return a == b
	}
	return a.Status == b.Status && slices.Equal(a.Header, b.Header) && string(a.Body) == string(b.Body)
}
