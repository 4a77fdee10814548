package benchmarks

import (
	"context"
	"fmt"
	"math"
	"net/http"
	"runtime"
	"strconv"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/semel-go/semel"
)

// A WaitResult tells what operations cost while they wait for the time that the server asked for.
type WaitResult struct {
	Operations int
	Longest    time.Duration
	Waiting    int           // operations that waited when memory was measured
	PerWait    int64         // bytes of heap and stacks for each of them, with the goroutine that calls
	Goroutines int           // that semel added to those that call
	Elapsed    time.Duration // from the last operation's first reply to the last answer
	CPU        time.Duration // of the process meanwhile, with the second attempts
	Attempts   int
}

// patient refuses each operation once and asks it to come back in its own time, spread evenly up to the longest.
type patient struct {
	operations int
	longest    time.Duration
	refused    atomic.Int64
	answered   atomic.Int64
	seen       []atomic.Bool
}

func (p *patient) RoundTrip(req *http.Request) (*http.Response, error) {
	if _, err := drain(req.Body); err != nil {
		return nil, err
	}
	var i int
	if _, err := fmt.Sscanf(req.URL.Path, "/v1/op/%d", &i); err != nil {
		return nil, err
	}
	r := &stubReply{}
	r.resp = http.Response{Status: "200 OK", StatusCode: 200, Proto: "HTTP/1.1", ProtoMajor: 1, ProtoMinor: 1,
		Header: okHeader, Body: r, Request: req}
	if p.seen[i].Swap(true) {
		p.answered.Add(1)
		return &r.resp, nil
	}
	wait := 10*time.Millisecond + (p.longest-10*time.Millisecond)*time.Duration(i)/time.Duration(p.operations)
	r.resp.Status, r.resp.StatusCode = "503 Service Unavailable", 503
	r.resp.Header = http.Header{"Retry-After-Ms": {fmt.Sprint(wait.Milliseconds())}}
	p.refused.Add(1)
	return &r.resp, nil
}

// Waits starts so many operations at once, each of which is told to wait between 10 ms and the longest, and measures them
// while they do.
func Waits(operations int, longest time.Duration) (WaitResult, error) {
	return waits(operations, longest, func(rt http.RoundTripper) Send {
		t := &semel.Transport{Base: rt, Retry: semel.Policy{Budget: &semel.Budget{Max: float64(operations)}}}
		return do((&semel.Client{HTTP: t.Client()}).Do)
	})
}

// Sleeps is the same by hand: a bare http.Client whose caller sleeps and asks again. It is what waiting costs anyway.
func Sleeps(operations int, longest time.Duration) (WaitResult, error) {
	return waits(operations, longest, func(rt http.RoundTripper) Send {
		client := &http.Client{Transport: rt}
		return do(func(req *http.Request) (*http.Response, error) {
			resp, err := client.Do(req)
			if err != nil || resp.StatusCode != 503 {
				return resp, err
			}
			ms, err := strconv.Atoi(resp.Header.Get("Retry-After-Ms"))
			if err != nil {
				return nil, err
			}
			resp.Body.Close()
			time.Sleep(time.Duration(ms) * time.Millisecond)
			again := req.Clone(req.Context())
			if again.Body, err = req.GetBody(); err != nil {
				return nil, err
			}
			return client.Do(again)
		})
	})
}

func waits(operations int, longest time.Duration, client func(http.RoundTripper) Send) (WaitResult, error) {
	p := &patient{operations: operations, longest: longest, seen: make([]atomic.Bool, operations)}
	send := client(p)
	var (
		failed atomic.Pointer[error]
		wg     sync.WaitGroup
	)
	goroutines, memory := runtime.NumGoroutine(), liveMemory()
	for i := range operations {
		wg.Go(func() {
			op := &Op{Method: "POST", URL: fmt.Sprintf("%s/v1/op/%d", stubBase, i), Body: body1K}
			status, err := send(context.Background(), op)
			if err == nil && status != 200 {
				err = fmt.Errorf("status %d", status)
			}
			if err != nil {
				failed.Store(&err)
			}
		})
	}
	for p.refused.Load() < int64(operations) && failed.Load() == nil {
		time.Sleep(time.Millisecond)
	}
	r := WaitResult{Operations: operations, Longest: longest}
	used := liveMemory() - memory
	r.Waiting = operations - int(p.answered.Load())
	r.PerWait = used / int64(max(1, r.Waiting))
	r.Goroutines = p.besides(goroutines)

	start, cpu := time.Now(), processCPU()
	wg.Wait()
	r.Elapsed, r.CPU = time.Since(start), processCPU()-cpu
	r.Attempts = int(p.refused.Load() + p.answered.Load())
	if err := failed.Load(); err != nil {
		return r, *err
	}
	return r, nil
}

// besides returns how many goroutines there are beyond the ones before and those that wait. An operation that was just
// answered still has its goroutine for a moment, so it is the fewest of many looks, each without an answer in its middle.
func (p *patient) besides(before int) int {
	fewest := math.MaxInt
	for range 100 {
		answered := p.answered.Load()
		n := runtime.NumGoroutine() - before - (p.operations - int(answered))
		if p.answered.Load() == answered {
			fewest = min(fewest, n)
		}
		time.Sleep(100 * time.Microsecond)
	}
	return fewest
}

func liveMemory() int64 {
	heap := liveHeap()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return heap + int64(m.StackInuse)
}

// processCPU returns the time that this process has spent on the processors.
func processCPU() time.Duration {
	var u syscall.Rusage
	must(syscall.Getrusage(syscall.RUSAGE_SELF, &u))
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}
