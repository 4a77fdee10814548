package proof

import (
	"errors"
	"time"

	"github.com/semel-go/semel/testserver"
)

func checkOwners(j *judge) {
	for _, v := range j.jobs {
		for i, c := range v.claims {
			if j.w.plan.pace == 1 && i > 0 && v.claims[i-1].ID == c.ID && c.At < j.liveUntil(v, v.claims[i-1], c) {
				j.breach("operation %d, arrival %d took the key over at %v from an owner that lives", v.n, c.Arrival, c.At)
			}
		}
		for _, s := range v.settled {
			if s.Err != nil || s.State == testserver.Free {
				continue // a key that is gone counts as freed
			}
			if c := latest(v.claims, s); c != nil && c.Hold.Owner != s.Hold.Owner {
				j.breach("operation %d: the owner of fence %d settled after the key was claimed under fence %d", v.n, s.Hold.Fence, c.Hold.Fence)
			}
		}
	}
}

// liveUntil is until when an owner may believe that the key is its own: a lease after it was last told so.
func (j *judge) liveUntil(v *jobView, c, next Event) (until time.Duration) {
	asked := c.At // for the first time, if the store's answer was lost
	for _, e := range j.events[:c.n] {
		if e.Kind == Claimed && e.Job == c.Job && e.Arrival == c.Arrival {
			asked = min(asked, e.At)
		}
	}
	until = asked + j.w.plan.lease
	for _, e := range j.events[c.n:next.n] {
		switch {
		case e.Kind == Restarted, e.Fatal && e.Job == c.Job && e.Arrival == c.Arrival, e.Kind == Settled && e.Hold.Owner == c.Hold.Owner:
			return 0
		case e.Kind == Renewed && e.Hold.Owner == c.Hold.Owner:
			until = e.Since + e.After
		}
	}
	for _, e := range j.events[next.n:] {
		// The store had freed the key, so its fences began anew, and that was written down later in the same instant.
		if e.At == next.At && e.Kind == Settled && e.State == testserver.Free && e.Err == nil && e.Hold.Owner == c.Hold.Owner && next.Hold.Fence <= c.Hold.Fence {
			return 0
		}
	}
	return until
}

// latest returns the last claim of the key before it was settled.
func latest(claims []Event, settled Event) (last *Event) {
	for i, c := range claims {
		if c.ID == settled.ID && c.n < settled.n {
			last = &claims[i]
		}
	}
	return last
}

// slack is the time within which a claim that was given up is gone.
const slack = 10 * time.Millisecond

// checkProgress looks for somebody at work whenever a client was told that somebody is.
func checkProgress(j *judge) {
	if j.w.plan.pace > 1 {
		return // nobody can tell how long a real machine takes to write down what it did
	}
	for _, v := range j.jobs {
		for _, r := range v.replies {
			if r.Code == "in_progress" && !j.atWork(v, r) {
				j.breach("operation %d, arrival %d: told to wait at %v for nobody", v.n, r.Arrival, r.At)
			}
		}
	}
}

// atWork reports whether some arrival may have held the key when this reply was decided.
func (j *judge) atWork(v *jobView, r Event) bool {
	asked := r.At // when the arrival last asked the store
	for _, e := range j.events {
		if e.Kind == Claimed && e.Job == r.Job && e.Arrival == r.Arrival && e.At <= r.At {
			asked = e.At
		}
	}
	for _, e := range j.events { // a claim whose answer was lost stands all the same
		lost := e.Kind == Claimed && e.Job == r.Job && e.Arrival != r.Arrival && errors.Is(e.Err, errShaky)
		if lost && e.At <= asked && asked <= j.replied(v, e.Arrival)+j.w.plan.lease+slack {
			return true
		}
	}
	for _, c := range v.claims {
		if c.Arrival == r.Arrival || c.At > r.At {
			continue
		}
		if until := j.heldUntil(v, c); asked <= until || r.At <= until { // a lost owner looks again
			return true
		}
	}
	return false
}

// replied is when an arrival was over.
func (j *judge) replied(v *jobView, arrival int) time.Duration {
	for _, r := range v.replies {
		if r.Arrival == arrival {
			return r.At
		}
	}
	return 1 << 62
}

// heldUntil is until when a claim may stand: its arrival's end, and after that the lease if nobody could tell the store.
func (j *judge) heldUntil(v *jobView, c Event) time.Duration {
	end := j.replied(v, c.Arrival)
	for _, s := range v.settled {
		if s.Hold == c.Hold {
			if s.Err == nil {
				return s.At
			}
			end = 1 << 62 // it will be tried again
		}
	}
	for _, e := range j.events {
		died := e.Kind == Restarted && e.At >= c.At ||
			e.Kind == Faulted && e.At >= c.At && e.ID == c.ID && e.ID.Key != "" ||
			e.Fatal && e.Job == c.Job && e.Arrival == c.Arrival
		if died && e.At <= end {
			return max(end, e.At) + j.w.plan.lease + slack
		}
	}
	return end + slack
}
