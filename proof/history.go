package proof

import (
	"fmt"
	"strings"
	"sync"
	"time"

	"github.com/semel-go/semel"
	"github.com/semel-go/semel/testserver"
)

// A History is what happened in a world, seen at both ends by one clock. It only grows.
type History struct {
	mu     sync.Mutex
	began  time.Time
	events []Event
}

// A Kind is what an Event is.
type Kind int

const (
	Called    Kind = iota // a caller asks for its operation
	Sent                  // the attempt got a connection
	Tried                 // an attempt ended: Status or Err, Since
	Told                  // what the caller is told: Outcome, Status or Err
	Closed                // the body of a request that can be read only once
	Left                  // the caller's process died: nobody is told anything
	Arrived               // a request's head reached the server
	Claimed               // the store was asked: State and Hold as they stand, Mine if the claim succeeded
	Began                 // the handler runs
	Ended                 // the handler has returned, with Status and Body
	Renewed               // the store has extended a hold, from Since on, for After
	Settled               // the guard ended its hold: State, or Err
	Replied               // the server has written a reply: Status, Code, Body
	Faulted               // a fault on purpose: Note
	Restarted             // the server's process died, and another one starts
	Unrested              // a guard does not come to rest
	Calm                  // no more faults on purpose
)

func (k Kind) String() string {
	return [...]string{"called", "sent", "tried", "told", "closed", "left", "arrived", "claimed", "began", "ended", "renewed", "settled", "replied", "faulted", "restarted", "unrested", "calm"}[k]
}

// An Event is one line of a history. Which fields mean something depends on its kind.
type Event struct {
	n    int // its place in the history
	Kind Kind
	At   time.Duration // since the world began

	Job     int // which operation, from 1
	Call    int // whose call, from 1
	Try     int // which attempt of the call, from 1; 0 if nobody said
	Arrival int // which request that arrived, from 1
	Copy    bool

	Since    time.Duration // of Tried and Told: when it began
	Status   int
	Code     string // of a problem
	Body     string
	Replayed bool
	After    time.Duration // Retry-After as the client could read it
	Sends    int
	Outcome  semel.Outcome
	Verdict  semel.Verdict
	Err      error

	ID    testserver.ID
	Hold  testserver.Hold
	State testserver.State
	Mine  bool
	Fatal bool // of Faulted: the owner of the claim is no more
	Note  string
}

func newHistory() *History { return &History{began: time.Now(), events: make([]Event, 0, 96)} }

func (h *History) now() time.Duration { return time.Since(h.began) }

// add appends the event, at the present time.
func (h *History) add(e Event) {
	h.mu.Lock()
	defer h.mu.Unlock()
	e.n, e.At = len(h.events), time.Since(h.began)
	h.events = append(h.events, e)
}

// all returns the events; those who still write must have ended.
func (h *History) all() []Event {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.events
}

// String is the history as lines, for whoever looks for the cause of a broken invariant.
func (h *History) String() string {
	var b strings.Builder
	for _, e := range h.all() {
		fmt.Fprintln(&b, e)
	}
	return b.String()
}

func (e Event) String() string {
	var b strings.Builder
	fmt.Fprintf(&b, "%14s %-9s", e.At.Round(time.Microsecond), e.Kind)
	part := func(show bool, format string, args ...any) {
		if show {
			fmt.Fprintf(&b, " "+format, args...)
		}
	}
	part(e.Job > 0, "operation %d", e.Job)
	part(e.Call > 0, "call %d", e.Call)
	part(e.Try > 0, "attempt %d", e.Try)
	part(e.Arrival > 0, "arrival %d", e.Arrival)
	part(e.Copy, "(a copy)")
	switch e.Kind {
	case Told:
		part(true, "%q", e.Outcome.String())
	case Claimed:
		part(true, "%s, mine %v, fence %d", stateName(e.State), e.Mine, e.Hold.Fence)
	case Began, Ended, Renewed:
		part(true, "fence %d", e.Hold.Fence)
	case Settled:
		part(true, "%s, fence %d", stateName(e.State), e.Hold.Fence)
	}
	part(e.Status > 0, "%d", e.Status)
	part(e.Code != "", "%s", e.Code)
	part(e.Replayed, "replayed")
	part(e.Verdict != 0, "verdict %q", e.Verdict.String())
	part(e.After > 0, "retry after %v", e.After)
	part(e.Body != "" && e.Code == "", "%s", strings.TrimSpace(e.Body))
	part(e.Note != "", "%s", e.Note)
	part(e.Err != nil, "error: %v", e.Err)
	return b.String()
}

func stateName(s testserver.State) string {
	return [...]string{"free", "pending", "completed", "unknown", "tombstone"}[s]
}
