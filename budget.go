package semel

import "sync"

// A Budget keeps retries a fraction of the traffic that is answered, per host. The zero Budget is full and ready; its
// fields must not change once it is in use. First attempts are never blocked.
type Budget struct {
	Max         float64 // tokens of a host; if 0, 10
	Refill      float64 // earned by an answer; if 0, 0.1
	Cost        float64 // of a retry; if 0, 1
	TimeoutCost float64 // of a retry after a timeout; if 0, 5

	mu sync.Mutex
}
