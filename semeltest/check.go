package semeltest

import (
	"context"
	"errors"
	"fmt"
	"runtime/debug"
	"strings"
	"sync"
	"time"
)

// A Violation is a rule that the subject of a Test… or Check… function has broken.
type Violation struct {
	Case   string // its name, as in the name of the subtest
	Rule   string // as one sentence
	Fault  string // what was done to the subject; empty if nothing
	Found  string // what was seen instead
	Report string // the sequence diagram of what happened at both ends; empty if there is none
}

func (v *Violation) Error() string {
	var b strings.Builder
	fmt.Fprintf(&b, "%s\n  rule:  %s\n", v.Case, v.Rule)
	if v.Fault != "" {
		fmt.Fprintf(&b, "  fault: %s\n", v.Fault)
	}
	fmt.Fprintf(&b, "  found: %s", strings.ReplaceAll(v.Found, "\n", "\n         "))
	if v.Report != "" {
		b.WriteString("\n\n" + v.Report)
	}
	return b.String()
}

// checkAll runs cases until the context ends, and joins what they found.
func checkAll[R any](ctx context.Context, rules []R, run func(R) *Violation) error {
	var errs []error
	for _, r := range rules {
		v := run(r)
		if err := ctx.Err(); err != nil { // what was found then is no wonder
			return errors.Join(append(errs, fmt.Errorf("semeltest: the check was not finished: %w", err))...)
		}
		if v != nil {
			errs = append(errs, v)
		}
	}
	return errors.Join(errs...)
}

// A check collects what is wrong in one case.
type check struct {
	ctx   context.Context
	mu    sync.Mutex
	found []string
}

func (c *check) errorf(format string, args ...any) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.found = append(c.found, fmt.Sprintf(format, args...))
}

// stopped ends a case whose rest would make no sense. It is recovered in examine.
type stopped struct{}

func (c *check) fatalf(format string, args ...any) {
	c.errorf(format, args...)
	panic(stopped{})
}

// bounded calls code under test and goes on without it when it does not return. Its panics are findings.
func bounded[T any](c *check, within time.Duration, call func() T) (T, bool) {
	type result struct {
		value T
		ok    bool
	}
	done := make(chan result, 1)
	go func() {
		var r result
		defer func() {
			if v := recover(); v != nil {
				c.errorf("panic: %v\n%s", v, debug.Stack())
			}
			done <- r
		}()
		r.value = call()
		r.ok = true
	}()
	late := time.NewTimer(within + time.Minute)
	defer late.Stop()
	select {
	case r := <-done:
		return r.value, r.ok
	case <-late.C:
		c.errorf("the call does not return, a minute after its deadline")
		return *new(T), false
	}
}

// examine runs a case and returns what it found. A panic of the subject is a finding.
func examine(ctx context.Context, run func(*check)) []string {
	c := &check{ctx: ctx}
	func() {
		defer func() {
			if v := recover(); v != nil && v != (stopped{}) {
				c.errorf("panic: %v\n%s", v, debug.Stack())
			}
		}()
		run(c)
	}()
	return c.found
}
