package benchmarks

import (
	"context"
	"fmt"
	"runtime"
	"sync"
	"sync/atomic"

	"github.com/cenkalti/backoff/v4"
	"github.com/semel-go/semel"
)

// A SoakResult tells what a soak left behind.
type SoakResult struct {
	Operations, Attempts int
	Heap                 int64 // bytes more on the heap than before, after two collections
	Goroutines           int   // more than before
}

// Soak performs so many operations with semel, spread over the hosts, and has every tenth attempt but one refused. The
// transport and its budget live on while the heap is measured.
func Soak(operations, hosts int) (SoakResult, error) {
	stub := &Stub{Plan: func(n uint64) (int, string) {
		if n%11 == 1 {
			return 503, "unavailable"
		}
		return 200, okBody
	}}
	t := &semel.Transport{Base: stub, Retry: semel.Policy{
		MaxAttempts: 5,
		Backoff:     func() semel.Backoff { return &backoff.ZeroBackOff{} },
		Budget:      &semel.Budget{Refill: 0.2},
	}}
	client := &semel.Client{HTTP: t.Client()}
	if err := soak(client, operations/100, 1); err != nil { // pools, type caches and the like come once
		return SoakResult{}, err
	}
	stub.attempts.Store(0)
	goroutines, heap := runtime.NumGoroutine(), liveHeap()
	if err := soak(client, operations, hosts); err != nil {
		return SoakResult{}, err
	}
	r := SoakResult{Operations: operations, Attempts: int(stub.attempts.Load())}
	r.Heap, r.Goroutines = liveHeap()-heap, runtime.NumGoroutine()-goroutines
	runtime.KeepAlive(client)
	return r, nil
}

func soak(client *semel.Client, operations, hosts int) error {
	var (
		next   atomic.Int64
		failed atomic.Pointer[error]
		wg     sync.WaitGroup
	)
	send := do(client.Do)
	for range 4 * runtime.GOMAXPROCS(0) {
		wg.Go(func() {
			for i := next.Add(1); i <= int64(operations); i = next.Add(1) {
				op := &Op{Method: "POST", URL: fmt.Sprintf("http://host%d.invalid/v1/op", i%int64(hosts)), Body: body1K}
				status, err := send(context.Background(), op)
				if err == nil && status != 200 {
					err = fmt.Errorf("status %d", status)
				}
				if err != nil {
					failed.Store(&err)
					return
				}
			}
		})
	}
	wg.Wait()
	if err := failed.Load(); err != nil {
		return *err
	}
	return nil
}

func liveHeap() int64 {
	var m runtime.MemStats
	runtime.GC()
	runtime.GC()
	runtime.ReadMemStats(&m)
	return int64(m.HeapAlloc)
}
