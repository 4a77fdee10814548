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
		atMost("heap growth with 100,000 hosts", float64(many.Heap), 1<<20, kib),
	}, nil
}

func reportWaits() ([]bar, error) {
	const operations, longest = 10_000, 10 * time.Second
	r, err := benchmarks.Waits(operations, longest)
	if err != nil {
		return nil, err
	}
	byHand, err := benchmarks.Sleeps(operations, longest)
	if err != nil {
		return nil, err
	}
	t := table{"10,000 operations at once", "semel", "time.Sleep by hand"}
	t.head("waits of 10 ms to 10 s for Retry-After")
	both := func(name string, of func(benchmarks.WaitResult) string) { t.row(name, of(r), of(byHand)) }
	both("bytes for each that waits, with its goroutine", func(r benchmarks.WaitResult) string { return num(float64(r.PerWait)) })
	both("that waited when they were counted", func(r benchmarks.WaitResult) string { return num(float64(r.Waiting)) })
	both("goroutines beyond those that call", func(r benchmarks.WaitResult) string { return fmt.Sprint(r.Goroutines) })
	both("processor time until the last answer, second attempts included", func(r benchmarks.WaitResult) string {
		return fmt.Sprintf("%v of %v", r.CPU.Round(time.Millisecond), r.Elapsed.Round(time.Millisecond))
	})
	both("attempts", func(r benchmarks.WaitResult) string { return num(float64(r.Attempts)) })
	return []bar{
		atMost("attempts of 10,000 operations that were each refused once", float64(r.Attempts), 2*operations, num),
		atMost("share of one processor while 10,000 operations wait", float64(r.CPU)/float64(r.Elapsed), 0.1, share),
	}, nil
}

func share(f float64) string { return fmt.Sprintf("%.1f %%", 100*f) }
