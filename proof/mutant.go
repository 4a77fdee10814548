package proof

import (
	"context"
	"fmt"
	"net/http"
	"net/http/httptrace"
	"strconv"
	"strings"
	"sync"

	"github.com/semel-go/semel/testserver"
)

// A mutant is a pair with one deliberate defect. Each is what somebody has really shipped, by faults.md §5.
type mutant struct {
	name string
	what string
	make func(*world) defect
}

// mutants are all of them, the server's first.
func mutants() []mutant { return append(serverMutants(), clientMutants()...) }

func mutantOf(name string) mutant {
	for _, m := range mutants() {
		if m.name == name {
			return m
		}
	}
	panic("no mutant is called " + name)
}

// both is a pair with two defects, which may hide each other.
func both(a, b string) mutant {
	first, second := mutantOf(a), mutantOf(b)
	return mutant{a + "+" + b, first.what + "; " + second.what, func(w *world) defect {
		d, e := first.make(w), second.make(w)
		return defect{
			onBase:      chain(d.onBase, e.onBase),
			onRequest:   chain(d.onRequest, e.onRequest),
			belief:      chain(d.belief, e.belief),
			onStore:     chain(d.onStore, e.onStore),
			onFront:     chain(d.onFront, e.onFront),
			onHandler:   chain(d.onHandler, e.onHandler),
			onFault:     chain(d.onFault, e.onFault),
			onGuard:     after(d.onGuard, e.onGuard),
			onTransport: after(d.onTransport, e.onTransport),
		}
	}}
}

func chain[T any](a, b func(T) T) func(T) T {
	switch {
	case a == nil:
		return b
	case b == nil:
		return a
	}
	return func(v T) T { return b(a(v)) }
}

func after[T any](a, b func(T)) func(T) {
	switch {
	case a == nil:
		return b
	case b == nil:
		return a
	}
	return func(v T) { a(v); b(v) }
}

// pairs are defects each of which is partly hidden by what the other one breaks as well.
func pairs() []mutant {
	return []mutant{
		both("S5", "S6"),  // two owners, and the stale one may settle
		both("S7", "S10"), // an error keeps the claim, and nobody takes it over
		both("S7", "S18"), // so does a client that has gone
		both("S1", "S6"),
		both("S2", "S11"), // half a body, and nobody compares it
		both("S3", "C4"),
		both("S8", "S6"),
		both("S9", "S13"),
		both("S2", "C2"), // an empty body, and nobody compares it
		both("C8", "C15"),
		both("C6", "C9"),
		both("C14", "S1"),
		both("C3", "C15"),
		both("C10", "C12"),
	}
}

// trip is a base that is a function.
type trip func(*http.Request) (*http.Response, error)

func (f trip) RoundTrip(r *http.Request) (*http.Response, error) { return f(r) }

// try returns which attempt of its call a request is.
func try(r *http.Request) int {
	n, _ := strconv.Atoi(r.Header.Get(tryHeader))
	return n
}

// keyHeader returns the name under which the request carries its key, in the casing that it has.
func keyHeader(r *http.Request) string {
	for name := range r.Header {
		if strings.EqualFold(name, "Idempotency-Key") {
			return name
		}
	}
	return "Idempotency-Key"
}

// unseen hides from semel how the request is sent. The history still tells; once says that it tells of the first time only.
func unseen(w *world, r *http.Request, once bool) *http.Request {
	var first sync.Once
	job, _ := strconv.Atoi(r.Header.Get(jobHeader))
	call, _ := strconv.Atoi(r.Header.Get(callHeader))
	trace := &httptrace.ClientTrace{GotConn: func(httptrace.GotConnInfo) {
		tell := func() { w.history.add(Event{Kind: Sent, Job: job, Call: call}) }
		if once {
			first.Do(tell)
		} else {
			tell()
		}
	}}
	bare := withoutTrace{r.Context()}
	return r.WithContext(httptrace.WithClientTrace(bare, trace))
}

// withoutTrace is a context without the hooks of httptrace.
type withoutTrace struct{ context.Context }

func (c withoutTrace) Value(key any) any {
	if strings.Contains(fmt.Sprintf("%T", key), "httptrace") {
		return nil
	}
	return c.Context.Value(key)
}

// detached hides from the bank that it works under a claim, or in a transaction.
type detached struct{ context.Context }

func (c detached) Value(key any) any {
	switch fmt.Sprintf("%T", key) {
	case "testserver.runKey", "testserver.memTxKey":
		return nil
	}
	return c.Context.Value(key)
}

// A blanket of store methods that a wrapper does not change.
type inner = testserver.Transactor
