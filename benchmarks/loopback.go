package benchmarks

import (
	"context"
	"fmt"
	"net/http"
	"runtime"
	"sync"
	"sync/atomic"
	"time"
)

// A Loopback performs POSTs of 1 KiB with one peer, over kept-alive HTTP/1.1 connections of its own to a server in another
// process.
type Loopback struct {
	Peer *Peer

	transport *http.Transport
	send      Send
	op        *Op
}

// Workers is how many operations go on at once in the parallel runs.
func Workers() int { return 8 * runtime.GOMAXPROCS(0) }

// NewLoopback connects the peer to the server and opens its connections.
func NewLoopback(p *Peer, base string) (*Loopback, error) {
	l := &Loopback{Peer: p, op: &Op{Method: "POST", URL: base + "/v1/op", Path: "/v1/op", Body: body1K}}
	l.transport = &http.Transport{MaxIdleConnsPerHost: 4 * Workers(), IdleConnTimeout: time.Minute, DisableCompression: true}
	l.send = p.New(l.transport, base)
	_, _, err := l.Run(20*Workers(), Workers())
	return l, err
}

// Close closes the idle connections.
func (l *Loopback) Close() { l.transport.CloseIdleConnections() }

func (l *Loopback) do() error {
	status, err := l.send(context.Background(), l.op)
	if err == nil && status != 200 {
		err = fmt.Errorf("status %d", status)
	}
	return err
}

// Run performs n operations by so many workers. It returns the time, bytes and allocations of one, as wall time divided by
// n, and each operation's latency.
func (l *Loopback) Run(n, workers int) (Sample, []time.Duration, error) {
	latencies := make([]time.Duration, n)
	var (
		next          atomic.Int64
		failed        atomic.Pointer[error]
		wg            sync.WaitGroup
		before, after runtime.MemStats
	)
	runtime.GC()
	runtime.ReadMemStats(&before)
	start := time.Now()
	for range workers {
		wg.Go(func() {
			for i := next.Add(1) - 1; i < int64(n); i = next.Add(1) - 1 {
				begun := time.Now()
				if err := l.do(); err != nil {
					failed.Store(&err)
					return
				}
				latencies[i] = time.Since(begun)
			}
		})
	}
	wg.Wait()
	elapsed := time.Since(start)
	runtime.ReadMemStats(&after)
	if err := failed.Load(); err != nil {
		return Sample{}, nil, *err
	}
	ops := float64(n)
	return Sample{
		NS:     float64(elapsed) / ops,
		Bytes:  float64(after.TotalAlloc-before.TotalAlloc) / ops,
		Allocs: float64(after.Mallocs-before.Mallocs) / ops,
	}, latencies, nil
}
