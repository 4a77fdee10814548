package semeltest

import (
	"slices"
	"sync"
	"time"
)

// An Event is one thing that happened in a [World].
type Event struct {
	At     time.Duration // since the world began
	Kind   Kind
	Key    string // as it was on the wire; empty without one
	Op     int    // the key's number, in the order of first sight, from 1
	N      int    // the attempt of the key, from 1
	Copy   bool   // it belongs to a copy that the network made of the attempt's request
	Status int    // of replies
	Detail string

	method string // of the attempt
}

// A Kind is what an [Event] is about. The client's events are call, attempt, send, reply, failure and belief; the server's
// are arrival, point, effect, answer and cut.
type Kind string

// What happens at the client.
const (
	onCall    Kind = "call"    // client code was asked to perform an operation
	onAttempt Kind = "attempt" // the base was called
	onSend    Kind = "send"    // a connection was taken for a request: more than once per attempt if net/http repeats it
	onReply   Kind = "reply"   // a reply has arrived, at least its head
	onFailure Kind = "failure" // none has, or its body was cut short
	onBelief  Kind = "belief"  // what client code says of its operation
)

// What happens at the server.
const (
	onArrival Kind = "arrival" // the handler was called
	onPoint   Kind = "point"   // a guard visited a point
	onEffect  Kind = "effect"  // the operation took effect
	onAnswer  Kind = "answer"  // the handler has returned its reply
	onCut     Kind = "cut"     // the handler broke off
)

// A History is what happened, at both ends, in order. It is safe for concurrent use.
type History struct {
	mu     sync.Mutex
	begun  time.Time
	events []Event
}

// Events returns what has happened so far.
func (h *History) Events() []Event {
	h.mu.Lock()
	defer h.mu.Unlock()
	return slices.Clone(h.events)
}

func (h *History) add(e Event) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.begun.IsZero() {
		h.begun = time.Now()
	}
	e.At = time.Since(h.begun)
	h.events = append(h.events, e)
}

// count returns how many events are of this kind.
func (h *History) count(k Kind) (n int) {
	for _, e := range h.Events() {
		if e.Kind == k {
			n++
		}
	}
	return n
}
