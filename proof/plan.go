package proof

import (
	"fmt"
	"net/http"
	"syscall"
	"time"

	"github.com/semel-go/semel/semeltest"
	"github.com/semel-go/semel/testserver"
)

// A plan is a world before it runs: who does what when, and what goes wrong. All of it follows from the seed, except where
// a test writes a plan of its own.
type plan struct {
	seed Seed
	pace int // in real time everything is so much quicker; 1: simulated time
	jobs []job

	effect     testserver.Effect
	direct     bool          // the handler is called from a RoundTripper, without net/http and a network between
	http2      bool          // without TLS
	wrapped    bool          // the client's *http.Transport is hidden in another RoundTripper
	lease      time.Duration // of claims
	retention  time.Duration // of answers
	downstream time.Duration // how long a keyed effect may be run again
	recovers   bool          // the guard can ask the bank about unknown operations
	redirect   int           // 307 and 308 lead to where the guard is, 303 from the effect to its answer; 0: none
	firstSent  bool          // the dialect sends when the operation began
	attempts   int           // of one call
	unlimited  bool          // the client has no budget
	rollsBack  bool          // the client is told that a 5xx has no effect, which is true of transactions
	nodes      int           // guards that share the store
	brief      bool          // the server forgets keys after an hour, and the client knows
	outlives   bool          // saved operations are taken up again when the server has forgotten them
	restart    time.Duration // when the server's process dies; 0: never
	down       time.Duration // until the next one listens

	deed   func(job, arrival int, p testserver.Point) deed
	conn   func(n int) semeltest.Plan
	copied func(job, arrival int) (after time.Duration, yes bool)
	shaky  func(call storeCall, n int) storeFault
	unheld func(name string) bool // by the gate of a schedule, if there is one
}

// A job is one operation that somebody wants done once.
type job struct {
	n        int
	key      string // that the callers bring; if empty, the client makes one
	from, to string
	amount   int64
	callers  []caller
}

// A way is how a caller gets its operation done.
type way int

const (
	plain     way = iota // Client.Do with a request; the key is minted
	checked              // an http.Client on top of the Transport, judged by Check
	bound                // an Operation, bound before it is sent
	shared               // the Operation of the callers before, at the same time
	restarted            // an Operation that is saved; the process dies, and another one resumes it
	inHeader             // the key in the request's header
	inContext            // WithKey
	inOp                 // NewOperation with the key
	ways
)

// A caller performs the job once.
type caller struct {
	call     int // its number in the world, from 1
	way      way
	at       time.Duration
	amount   int64         // the job's, or another one: the key is reused for another payload
	deadline time.Duration // of its context; 0: none
	cancel   time.Duration // after which it cancels; for restarted: after which its process dies
	timeout  time.Duration // http.Client's
	streams  bool          // its body can be read only once
	prefers  int           // seconds that it asks the server to wait for an operation under way; 0: none
	back     time.Duration // for restarted: until it is resumed, as the call after this one
}

// A deed is what goes wrong at one point of one arrival.
type deed struct {
	what  string // for the history; "" for nothing
	do    testserver.Action
	fatal bool // the owner dies with it: it neither settles nor renews

	lasts time.Duration                         // of a deed that only takes time
	wait  func(time.Duration) testserver.Action // what it does then; nil for others
}

const horizon = 2 * time.Hour // by when everybody has begun

// plan makes the world of the seed.
func (s Seed) plan() *plan {
	p := &plan{
		seed:     s,
		pace:     1,
		nodes:    1,
		effect:   testserver.Effect(s.Pick(4, "effect")),
		direct:   s.Chance(0.3, "direct"),
		wrapped:  s.Chance(0.3, "wrapped"),
		lease:    10 * time.Second,
		recovers: s.Chance(0.3, "recovers"),
		attempts: 8,
	}
	if s.Chance(0.2, "redirect") {
		p.redirect = []int{http.StatusTemporaryRedirect, http.StatusPermanentRedirect, http.StatusSeeOther}[s.Pick(3, "status")]
	}
	p.firstSent = s.Chance(0.2, "first-sent")
	p.unlimited = s.Chance(0.5, "budget")
	if s.Chance(0.1, "restart") {
		p.restart, p.down = s.Between(0, 8*time.Second, "restart-at"), s.Between(0, 3*time.Second, "down")
	}
	p.http2 = !p.direct && s.Chance(0.15, "http2")
	p.outlives = s.Chance(0.1, "outlives")
	p.rollsBack = p.effect == testserver.Transactional && s.Chance(0.4, "rolls back")
	if s.Chance(0.25, "nodes") {
		p.nodes = 2
	}
	if p.brief = s.Chance(0.1, "brief"); p.brief {
		p.retention = time.Hour
	}
	call := 0
	for n := range 1 + s.Pick(3, "jobs") {
		p.jobs = append(p.jobs, s.job(n+1, &call))
	}
	p.deed, p.conn, p.copied, p.shaky = s.deed, s.conn, s.copied, s.storeFault
	return p
}

func (s Seed) job(n int, call *int) job {
	accounts := [3]string{"alice", "bob", "carol"}
	from := s.Pick(3, "from", n)
	j := job{n: n, from: accounts[from], to: accounts[(from+1)%3], amount: int64(n*100 + 1 + s.Pick(50, "amount", n))}
	first, alone := s.way(n)
	if first >= inHeader {
		j.key = fmt.Sprintf("key-%d-of-%d", n, s)
	}
	callers := 1
	if !alone {
		callers += s.Pick(3, "callers", n)
	}
	burst := s.Chance(0.35, "burst", n) // they start at one instant
	for i := range callers {
		*call++
		c := s.caller(j, *call, n, i)
		switch {
		case i > 0 && first == bound:
			c.way = shared
		case i > 0 && first >= inHeader:
			c.way = inHeader + way(s.Pick(3, "way", n, i))
		default:
			c.way = first
		}
		if burst {
			c.at = time.Duration(n) * time.Second
		}
		if c.way == restarted {
			*call++ // the process that resumes it
			c.cancel, c.back = s.Between(0, 4*time.Second, "dies", n), s.Between(0, 20*time.Second, "back", n)
			if s.Chance(0.3, "brief back", n) && s.Chance(0.1, "brief") {
				c.back = s.Between(0, horizon, "back", n)
			}
		}
		j.callers = append(j.callers, c)
	}
	return j
}

// way is how the first caller does it, and whether it is the only one.
func (s Seed) way(n int) (w way, alone bool) {
	switch x := s.Part("first", n); {
	case x < 0.15:
		return plain, true
	case x < 0.30:
		return checked, true
	case x < 0.50:
		return bound, false
	case x < 0.65:
		return restarted, true
	default:
		return inHeader + way(s.Pick(3, "brought", n)), false
	}
}

func (s Seed) caller(j job, call, n, i int) caller {
	c := caller{call: call, amount: j.amount, at: s.Between(0, 4*time.Second, "at", n, i)}
	if i > 0 && s.Chance(0.2, "late", n, i) && !s.Chance(0.1, "brief") { // long after
		c.at += s.Between(time.Minute, horizon, "late", n, i)
	}
	if i > 0 && j.key != "" && s.Chance(0.15, "other", n, i) {
		c.amount = 9000 + int64(call)
	}
	if s.Chance(0.15, "prefers", n, i) {
		c.prefers = 1 + s.Pick(4, "prefers how long", n, i)
	}
	c.streams = s.Chance(0.2, "streams", n, i)
	switch x := s.Part("patience", n, i); {
	case x < 0.10:
		c.cancel = s.Between(0, 3*time.Second, "cancel", n, i)
	case x < 0.20:
		c.deadline = s.Between(0, 30*time.Second, "deadline", n, i)
	case x < 0.27:
		c.timeout = s.Between(100*time.Millisecond, 10*time.Second, "timeout", n, i)
	}
	return c
}

// conn is the plan of the connection that is dialled as the nth.
func (s Seed) conn(n int) semeltest.Plan {
	p := semeltest.Plan{Latency: s.Between(time.Microsecond, 20*time.Millisecond, "latency", n)}
	if s.Chance(0.3, "same latency") {
		p.Latency = 5 * time.Millisecond
	}
	ends := [3]semeltest.End{semeltest.FIN, semeltest.RST, semeltest.Stall}
	switch x := s.Part("conn", n); {
	case x < 0.04:
		p.DialError = syscall.ECONNREFUSED
	case x < 0.05:
		p.DialDelay = 20 * time.Second
	case x < 0.11:
		p.Up = semeltest.Cut{After: int64(s.Pick(420, "up", n)), End: ends[s.Pick(3, "up end", n)]}
	case x < 0.19:
		p.Down = semeltest.Cut{After: int64(s.Pick(420, "down", n)), End: ends[s.Pick(3, "down end", n)]}
	}
	return p
}

// copied says whether something on the way sends the request a second time.
func (s Seed) copied(job, arrival int) (time.Duration, bool) {
	switch x := s.Part("copied", job, arrival); {
	case x < 0.02:
		return 0, true
	case x < 0.05 && s.Chance(0.1, "brief") && !s.Chance(0.2, "first-sent"):
		return s.Between(0, 20*time.Minute, "copied after", job, arrival), true // later ones nobody could recognize
	case x < 0.05:
		return s.Between(0, horizon, "copied after", job, arrival), true
	}
	return 0, false
}
