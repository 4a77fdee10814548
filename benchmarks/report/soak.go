package main

import (
	"fmt"
	"time"

	"github.com/semel-go/semel/benchmarks"
)

func kib(f float64) string { return fmt.Sprintf("%.0f KiB", f/1024) }

func reportSoak() ([]bar, error) {
	one, err := benchmarks.Soak(1_000_000, 1)
	if err != nil {
		return nil, err
	}
	many, err := benchmarks.Soak(1_000_000, 100_000)
	if err != nil {
		return nil, err
	}
	t := table{"soak", "attempts", "heap growth", "goroutines more"}
	t.head("soak")
	t.row("1,000,000 operations to one host", num(float64(one.Attempts)), kib(float64(one.Heap)), fmt.Sprint(one.Goroutines))
	t.row("1,000,000 operations to 100,000 hosts", num(float64(many.Attempts)), kib(float64(many.Heap)), fmt.Sprint(many.Goroutines))
	return []bar{
		atMost("heap growth over 1,000,000 operations", float64(one.Heap), 256<<10, kib),
		atMost("goroutines left after 1,000,000 operations", float64(one.Goroutines), 0, num),
		atMost("heap growth with 100,000 hosts", float64(many.Heap), 256<<10, kib),
	}, nil
}

func reportWaits() ([]bar, error) {
	r, err := benchmarks.Waits(10_000, 10*time.Second)
	if err != nil {
		return nil, err
	}
	t := table{"waits", ""}
	t.head("10,000 operations that wait 10 ms to 10 s for Retry-After at once")
	t.row("memory per waiting operation, with its goroutine's stack", fmt.Sprintf("%s B, of %s that waited", num(float64(r.PerWait)), num(float64(r.Waiting))))
	t.row("goroutines beyond those that call", fmt.Sprint(r.Goroutines))
	t.row("processor time while waiting, with the second attempts", fmt.Sprintf("%v of %v", r.CPU.Round(time.Millisecond), r.Elapsed.Round(time.Millisecond)))
	t.row("attempts", num(float64(r.Attempts)))
	return []bar{
		atMost("attempts of 10,000 operations that were each refused once", float64(r.Attempts), 20_000, num),
		atMost("processor time while 10,000 operations wait, share of one processor", float64(r.CPU)/float64(r.Elapsed), 0.05, times),
	}, nil
}
