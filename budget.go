package semel

import (
	"fmt"
	"math"
	"strings"
	"sync"
	"sync/atomic"
	"time"
)

// A Budget keeps retries a fraction of the traffic that is answered, so that a server in trouble is not held there by
// those who repeat. Each host has a bucket of tokens, full at first. A retry takes some, and is not made if there are too
// few; an answer earns some back. First attempts are never blocked, and neither are polls of an operation that the server
// says is running: the server is well and asked for them. In a partial failure almost every retry is made, in an outage
// the first ten.
//
// So that no host starves each bucket also gains one token a minute. A bucket that is full again is forgotten. At most
// 4,096 hosts have buckets of their own at once; while that many are in trouble all further hosts share one, which their
// answers fill.
//
// The zero Budget is ready and safe for concurrent use. Its fields must not change once it is in use, and it must not be
// copied. Share one between Transports that call the same hosts.
type Budget struct {
	Max         float64 // tokens of a host; if 0, 10; +Inf for no limit
	Refill      float64 // earned by an answer; if 0, 0.1
	Cost        float64 // of a retry; if 0, 1; never more than Max
	TimeoutCost float64 // of a retry after a timeout; if 0, 5; never more than Max

	short atomic.Int32 // buckets that exist; mostly none, then an answer has nothing to do
	mu    sync.Mutex   // guards what follows; never held while waiting
	hosts map[string]*bucket
	rest  *bucket   // of all hosts that found no place; nil: full
	swept time.Time // when full buckets were last looked for
}

const (
	trickle  = time.Minute // in which a bucket gains a token by itself
	maxHosts = 4096
	epsilon  = 1e-9 // ten times 0.1 is not quite 1
)

type bucket struct {
	tokens float64
	at     time.Time // when tokens was true
}

func (k *bucket) gain(now time.Time, tokens float64) {
	k.tokens += float64(now.Sub(k.at))/float64(trickle) + tokens
	k.at = now
}

// check refuses nonsense by the name of its field.
func (b *Budget) check() error {
	if b.Max >= 0 && b.Refill >= 0 && b.Cost >= 0 && b.TimeoutCost >= 0 {
		return nil // which no NaN is
	}
	fields := [...]struct {
		name  string
		value float64
	}{{"Max", b.Max}, {"Refill", b.Refill}, {"Cost", b.Cost}, {"TimeoutCost", b.TimeoutCost}}
	for _, f := range fields {
		if f.value < 0 || math.IsNaN(f.value) {
			return fmt.Errorf("%s is %v; it must be 0 for the default, or more", "Budget."+f.name, f.value)
		}
	}
	return nil
}

func (b *Budget) max() float64 { return or(b.Max, 10) }

func (b *Budget) cost(timeout bool) float64 {
	if timeout {
		return min(or(b.TimeoutCost, 5), b.max())
	}
	return min(or(b.Cost, 1), b.max())
}

// take pays for one retry to the host, after a timeout or another failure, and reports whether the tokens sufficed.
func (b *Budget) take(host string, timeout bool) bool {
	if math.IsInf(b.max(), 1) {
		return true
	}
	now := time.Now()
	b.mu.Lock()
	defer b.mu.Unlock()
	k := b.bucket(host, now)
	k.gain(now, 0)
	k.tokens = min(k.tokens, b.max())
	cost := b.cost(timeout)
	if k.tokens+epsilon < cost {
		return false
	}
	k.tokens -= cost
	return true
}

// earn credits the host with an answer.
func (b *Budget) earn(host string) { b.give(host, or(b.Refill, 0.1)) }

// refund gives back what take took for a retry that was not made after all.
func (b *Budget) refund(host string, timeout bool) { b.give(host, b.cost(timeout)) }

func (b *Budget) give(host string, tokens float64) {
	if b.short.Load() == 0 {
		return
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	k := b.hosts[host]
	if k == nil {
		k = b.rest
	}
	if k == nil {
		return // full
	}
	if k.gain(time.Now(), tokens); !b.full(k) {
		return
	}
	b.short.Add(-1)
	if k == b.rest {
		b.rest = nil
		return
	}
	delete(b.hosts, host)
}

// bucket returns the host's own bucket, or the one for all that find no place; a full one if it had been forgotten.
func (b *Budget) bucket(host string, now time.Time) *bucket {
	if k := b.hosts[host]; k != nil {
		return k
	}
	if now.Sub(b.swept) >= trickle {
		b.sweep(now)
	}
	full := &bucket{tokens: b.max(), at: now}
	switch {
	case len(b.hosts) >= maxHosts && b.rest != nil:
		return b.rest
	case len(b.hosts) >= maxHosts:
		b.rest = full
	default:
		if b.hosts == nil {
			b.hosts = make(map[string]*bucket)
		}
		b.hosts[strings.Clone(host)] = full // not the URL that it may be part of
	}
	b.short.Add(1)
	return full
}

// sweep forgets the buckets that time alone has filled.
func (b *Budget) sweep(now time.Time) {
	b.swept = now
	for host, k := range b.hosts {
		if k.gain(now, 0); b.full(k) {
			delete(b.hosts, host)
			b.short.Add(-1)
		}
	}
}

func (b *Budget) full(k *bucket) bool { return k.tokens+epsilon >= b.max() }
