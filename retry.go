package semel

import (
	"fmt"
	"time"
)

// A Policy says how often and how patiently to repeat. The zero Policy makes four attempts with jittered waits. A negative
// value is refused by the name of its field, before anything is sent.
type Policy struct {
	MaxAttempts    int            // with the first; if 0, four
	MaxPolls       int            // repeats while the operation is Running, which are not counted as attempts; if 0, thirty
	Backoff        func() Backoff // a fresh schedule for one operation; if nil, exponential from 100ms to 20s with jitter
	AttemptTimeout time.Duration  // without progress, up to an eighth more; if 0, 60s for keyed operations; Forever for none
	MaxWait        time.Duration  // longest single wait borne, Retry-After included; if 0, 60s
	Budget         *Budget        // limits retries over all who share it; if nil, the Transport's own
	AttemptHeader  string         // if set, a request header with the number of the attempt, from 1
}

// A Backoff is one operation's schedule. Every BackOff of cenkalti/backoff is one.
type Backoff interface {
	NextBackOff() time.Duration // negative: stop
}

// Forever switches a limit off.
const Forever = time.Duration(1<<63 - 1)

func (p *Policy) check() error {
	switch {
	case p.MaxAttempts < 0:
		return fmt.Errorf("Policy.MaxAttempts is negative: %d", p.MaxAttempts)
	case p.MaxPolls < 0:
		return fmt.Errorf("Policy.MaxPolls is negative: %d", p.MaxPolls)
	case p.AttemptTimeout < 0:
		return fmt.Errorf("Policy.AttemptTimeout is negative: %v", p.AttemptTimeout)
	case p.MaxWait < 0:
		return fmt.Errorf("Policy.MaxWait is negative: %v", p.MaxWait)
	case p.AttemptHeader != "" && !token(p.AttemptHeader):
		return fmt.Errorf("Policy.AttemptHeader is no header name: %q", p.AttemptHeader)
	case p.Budget != nil:
		return p.Budget.check()
	}
	return nil
}

func (p *Policy) maxAttempts() int { return or(p.MaxAttempts, 4) }

func (p *Policy) maxPolls() int { return or(p.MaxPolls, 30) }

func (p *Policy) maxWait() time.Duration { return or(p.MaxWait, time.Minute) }

// attemptTimeout is 0 for none.
func (p *Policy) attemptTimeout(keyed bool) time.Duration {
	switch {
	case p.AttemptTimeout == Forever, p.AttemptTimeout == 0 && !keyed:
		return 0
	case p.AttemptTimeout == 0:
		return time.Minute
	}
	return p.AttemptTimeout
}

// or returns v, or what its zero value stands for.
func or[T comparable](v, zero T) T {
	var none T
	if v == none {
		return zero
	}
	return v
}
