package benchmarks

import (
	"testing"
	"time"
)

func TestAMillionOperationsLeaveNothingBehind(t *testing.T) {
	r, err := Soak(operations, 1)
	if err != nil {
		t.Fatal(err)
	}
	if r.Attempts != operations+operations/10 {
		t.Errorf("%d operations took %d attempts; every tenth should have been repeated", r.Operations, r.Attempts)
	}
	if r.Heap > 256<<10 {
		t.Errorf("the heap grew by %d bytes", r.Heap)
	}
	if r.Goroutines > 0 {
		t.Errorf("%d goroutines are left", r.Goroutines)
	}
}

func TestManyHostsLeaveABoundedBudget(t *testing.T) {
	for _, hosts := range []int{10_000, 100_000} {
		r, err := Soak(2*hosts, hosts)
		if err != nil {
			t.Fatal(err)
		}
		if r.Heap > 1<<20 {
			t.Errorf("%d hosts left %d bytes on the heap", hosts, r.Heap)
		}
	}
}

func TestWaitingOperationsAskOnceMoreAndHoldNoGoroutine(t *testing.T) {
	r, err := Waits(2_000, time.Second)
	if err != nil {
		t.Fatal(err)
	}
	if r.Attempts != 4_000 {
		t.Errorf("2,000 operations that were each refused once took %d attempts", r.Attempts)
	}
	if r.Goroutines > 0 {
		t.Errorf("%d goroutines besides those that call", r.Goroutines)
	}
}
