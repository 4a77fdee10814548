package semel

import (
	"time"

	"github.com/cenkalti/backoff/v4"
)

const (
	firstWait   = 100 * time.Millisecond
	longestWait = 20 * time.Second
	jitter      = 0.5
)

// newBackoff returns the default schedule: waits around 100ms, 200ms, 400ms and so on, each within half of its nominal
// value either way, the longest 20s, without an end of its own. It belongs to one operation and is not safe for concurrent
// use. Nothing of it exists before an operation's first repeat.
func newBackoff() Backoff {
	b := backoff.NewExponentialBackOff()
	b.InitialInterval = firstWait
	b.Multiplier = 2
	b.RandomizationFactor = jitter
	b.MaxInterval = longestWait * 2 / 3 // nominal: the jitter above it ends at longestWait
	b.MaxElapsedTime = 0                // attempts, the deadline and the budget end an operation
	b.Reset()
	return b
}
