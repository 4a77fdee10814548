package semel

import "time"

// A Policy says how often and how patiently to repeat. The zero Policy makes four attempts with jittered waits. A negative
// value is refused, by the name of its field, before anything is sent.
type Policy struct {
	MaxAttempts    int            // with the first; if 0, four
	MaxPolls       int            // repeats while the operation is Running; if 0, thirty
	Backoff        func() Backoff // a fresh schedule for one operation; if nil, exponential from 100ms to 20s with jitter
	AttemptTimeout time.Duration  // without progress, see Transport; if 0, 60s for keyed operations; Forever for none
	MaxWait        time.Duration  // longest single wait borne, Retry-After included; if 0, 60s
	Budget         *Budget        // limits retries over all who share it; if nil, the Transport's own
	AttemptHeader  string         // if set, carries the number of the attempt, from 1
}

// A Backoff is one operation's schedule. Every BackOff of cenkalti/backoff is one.
type Backoff interface {
	NextBackOff() time.Duration // negative: stop
}
