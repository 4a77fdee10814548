package semeltest

import (
	"fmt"
	"math/rand/v2"
	"net/http"
	"strconv"
	"syscall"
	"time"

	"github.com/semel-go/semel/testserver"
)

// A Fault is something that goes wrong with one attempt of each key, the first or the third one, at whatever time it is
// made: put it into a [World]. Faults combine freely; it hits the first send of its attempt. Attempt 0 means every one.
type Fault struct {
	name string
	hits func(op, attempt int) bool
	does func(*trouble)
	draw func(op, attempt int, t *trouble) // of Seed, instead of does
}

// A trouble is all that goes wrong with one attempt.
type trouble struct {
	names   []string
	dial    error
	hang    time.Duration // before the dial
	up      *Cut
	down    *Cut
	copies  []time.Duration
	status  int           // of a reply that a gateway makes up
	early   bool          // before it has read the request's body
	doze    time.Duration // of the server, before it reads the request's body
	goAway  bool          // the server takes no further requests on this HTTP/2 connection
	header  http.Header
	body    string
	half    End                       // in the middle of the request's body
	hold    time.Duration             // until the request goes out; its copies do at once
	garble  func(reply []byte) []byte // what the connection carries instead of the reply
	actions map[testserver.Point][]testserver.Action
}

// String returns the fault as it is written in Go.
func (f Fault) String() string { return f.name }

func fault(attempt int, does func(*trouble), format string, args ...any) Fault {
	return Fault{name: fmt.Sprintf(format, args...), does: does, hits: func(_, n int) bool { return attempt == 0 || n == attempt }}
}

// NoDial makes the connection of the attempt fail: nothing is sent.
func NoDial(attempt int) Fault {
	return fault(attempt, func(t *trouble) { t.dial = syscall.ECONNREFUSED }, "NoDial(%d)", attempt)
}

// LoseReply loses the reply to the attempt: the server does its work and answers, and the client finds the connection reset.
func LoseReply(attempt int) Fault {
	return fault(attempt, func(t *trouble) { t.down = &Cut{End: RST} }, "LoseReply(%d)", attempt)
}

// CutReply ends the reply to the attempt after so many bytes, its head included. Over HTTP/2 and TLS the bytes are counted
// as HTTP/1.1 without TLS would have them.
func CutReply(attempt, bytes int, end End) Fault {
	return fault(attempt, func(t *trouble) { t.down = &Cut{After: int64(bytes), End: end} }, "CutReply(%d, %d, %v)", attempt, bytes, end)
}

// CutRequest ends the request of the attempt after so many bytes, its head included, counted as in [CutReply].
func CutRequest(attempt, bytes int, end End) Fault {
	return fault(attempt, func(t *trouble) { t.up = &Cut{After: int64(bytes), End: end} }, "CutRequest(%d, %d, %v)", attempt, bytes, end)
}

// Twice lets the attempt's request arrive twice at once. The client gets the reply to one of them.
func Twice(attempt int) Fault {
	return fault(attempt, func(t *trouble) { t.copies = append(t.copies, 0) }, "Twice(%d)", attempt)
}

// Late lets a copy of the attempt's request arrive later. Nobody gets its reply.
func Late(attempt int, d time.Duration) Fault {
	return fault(attempt, func(t *trouble) { t.copies = append(t.copies, d) }, "Late(%d, %v)", attempt, d)
}

// Reply answers the attempt with a status in the server's place, as an overloaded gateway does, and with Retry-After unless
// retryAfter is 0.
func Reply(attempt, status int, retryAfter time.Duration) Fault {
	return fault(attempt, func(t *trouble) {
		t.status, t.header = status, http.Header{"Content-Type": {"text/plain; charset=utf-8"}}
		if retryAfter > 0 {
			t.header.Set("Retry-After", strconv.Itoa(int((retryAfter+time.Second-1)/time.Second)))
		}
		t.body = http.StatusText(status) + "\n"
	}, "Reply(%d, %d, %v)", attempt, status, retryAfter)
}

// At acts at a point of the server's work on the attempt, where the server's guard has the world's [World.Visit] as its
// Fault. The actions are those of package testserver.
func At(point testserver.Point, attempt int, do testserver.Action) Fault {
	return fault(attempt, func(t *trouble) {
		if t.actions == nil {
			t.actions = make(map[testserver.Point][]testserver.Action)
		}
		t.actions[point] = append(t.actions[point], do)
	}, "At(%s, %d, …)", pointName(point), attempt)
}

// From makes a fault hit its attempt and all later ones.
func From(f Fault) Fault {
	return Fault{name: "From(" + f.name + ")", does: f.does, draw: f.draw, hits: func(op, n int) bool {
		for ; n > 0; n-- {
			if f.hits(op, n) {
				return true
			}
		}
		return false
	}}
}

// On limits a fault to one operation, in the order in which their keys are first seen, from 1.
func On(operation int, f Fault) Fault {
	return Fault{name: fmt.Sprintf("On(%d, %s)", operation, f.name), does: f.does, draw: f.draw, hits: func(op, n int) bool {
		return op == operation && f.hits(op, n)
	}}
}

// Seed draws what goes wrong with each attempt of each operation from the number alone. About half of the attempts come
// through, and none stays silent for ever.
func Seed(n uint64) Fault {
	return Fault{
		name: fmt.Sprintf("Seed(%d)", n),
		hits: func(int, int) bool { return true },
		draw: func(op, attempt int, t *trouble) {
			r := rand.New(rand.NewPCG(n, uint64(op)<<32|uint64(attempt)))
			if f, ok := drawn(r, attempt); ok {
				t.names = append(t.names, f.name)
				f.does(t)
			}
		},
	}
}

func drawn(r *rand.Rand, attempt int) (Fault, bool) {
	ends := []End{FIN, RST}
	end := ends[r.IntN(2)]
	switch r.IntN(16) {
	case 0:
		return NoDial(attempt), true
	case 1, 2:
		return LoseReply(attempt), true
	case 3, 4:
		return CutReply(attempt, r.IntN(250), end), true
	case 5, 6:
		return CutRequest(attempt, r.IntN(250), end), true
	case 7:
		return Twice(attempt), true
	case 8:
		return Late(attempt, time.Duration(r.IntN(60_000))*time.Millisecond), true
	case 9:
		return Reply(attempt, []int{429, 503, 500, 502}[r.IntN(4)], time.Duration(r.IntN(3))*time.Second), true
	}
	return Fault{}, false
}

// trouble collects what the faults do to an attempt.
func troubleOf(faults []Fault, op, attempt int) *trouble {
	t := new(trouble)
	for _, f := range faults {
		if f.hits == nil || !f.hits(op, attempt) {
			continue
		}
		if f.draw != nil {
			f.draw(op, attempt, t)
			continue
		}
		t.names = append(t.names, f.name)
		f.does(t)
	}
	return t
}
