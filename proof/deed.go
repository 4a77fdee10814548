package proof

import (
	"context"
	"fmt"
	"net/http"
	"time"

	"github.com/semel-go/semel/testserver"
)

// deed is what goes wrong at a point. A job grows well after a few arrivals, unless it is doomed: then the service only
// says no.
func (s Seed) deed(job, arrival int, p testserver.Point) deed {
	if s.Chance(0.15, "doomed", job) && arrival > 1 {
		if p == testserver.BeforeClaim {
			return status(http.StatusServiceUnavailable, 0)
		}
		return deed{}
	}
	if arrival > 5 {
		return deed{}
	}
	x := s.Part("deed", job, arrival, int(p))
	switch p {
	case testserver.BeforeClaim:
		return s.before(x, job, arrival)
	case testserver.AfterClaim, testserver.AfterEffect:
		return s.around(x, job, arrival, p)
	case testserver.AfterSettle:
		switch {
		case x < 0.10:
			return abort()
		case x < 0.13:
			return sleep(s.Between(0, 15*time.Second, "sleep", job, arrival, int(p)))
		}
	case testserver.InReply:
		if x < 0.08 {
			n := s.Pick(120, "cut", job, arrival)
			return deed{what: fmt.Sprintf("cuts the reply after %d bytes", n), do: testserver.Cut(n)}
		}
	}
	return deed{}
}

// before the claim: overload, and authentication that fails, before anything is known of the key.
func (s Seed) before(x float64, job, arrival int) deed {
	switch {
	case x < 0.08:
		return abort()
	case x < 0.12:
		return status(http.StatusServiceUnavailable, 0)
	case x < 0.14:
		after := 2 * time.Second
		if s.Chance(0.4, "long", job) {
			after = 10 * time.Minute
		}
		return status(http.StatusTooManyRequests, after)
	case x < 0.15:
		return status(http.StatusServiceUnavailable, 10*time.Minute)
	case x < 0.19 && arrival > 1: // say, a token that ran out between attempts
		return status(http.StatusUnauthorized, 0)
	case x < 0.20:
		return status(http.StatusRequestEntityTooLarge, 0)
	case x < 0.23:
		return sleep(s.Between(0, 8*time.Second, "sleep", job, arrival, int(testserver.BeforeClaim)))
	}
	return deed{}
}

// around the handler, under a claim.
func (s Seed) around(x float64, job, arrival int, p testserver.Point) deed {
	d := s.Between(0, 25*time.Second, "sleep", job, arrival, int(p))
	switch {
	case x < 0.05:
		return abort()
	case x < 0.10:
		return deed{what: "crashes", do: testserver.Crash, fatal: true}
	case x < 0.14:
		return sleep(d)
	case x < 0.18:
		return freezing(d)
	case x < 0.21:
		return status(http.StatusInternalServerError, 0)
	case x < 0.22 && p == testserver.AfterClaim:
		return status(http.StatusTooManyRequests, time.Second)
	}
	return deed{}
}

func abort() deed { return deed{what: "aborts", do: testserver.Abort} }

func sleep(d time.Duration) deed {
	return deed{what: fmt.Sprintf("takes %v", d), lasts: d, wait: testserver.Sleep}
}

func freezing(d time.Duration) deed {
	return deed{what: fmt.Sprintf("freezes for %v", d), lasts: d, wait: testserver.Freeze}
}

func status(code int, after time.Duration) deed {
	what := fmt.Sprintf("answers %d", code)
	if after > 0 {
		what += fmt.Sprintf(", retry after %v", after)
	}
	return deed{what: what, do: testserver.Status(code, after)}
}

// fault is the guard's hook: it does the deed of the point, and writes it down.
func (w *world) fault(ctx context.Context, p testserver.Point, v testserver.Visit) error {
	a := arrivalIn(ctx)
	if w.calm.Load() {
		return nil
	}
	if w.gate != nil {
		w.gate.at(fmt.Sprintf("call %d attempt %d %s", a.call, a.try, pointNames[p]))
	}
	d := w.plan.deed(a.job, a.n, p)
	if d.what == "" {
		return nil
	}
	w.history.add(Event{Kind: Faulted, Job: a.job, Call: a.call, Try: a.try, Arrival: a.n, Copy: a.copy, Fatal: d.fatal, Note: pointNames[p] + ": the server " + d.what})
	if d.fatal {
		a.died.Store(true)
	}
	if d.wait != nil {
		return d.wait(w.plan.paced(d.lasts))(ctx, v)
	}
	return d.do(ctx, v)
}

var pointNames = [...]string{"", "before the claim", "after the claim", "after the effect", "after settling", "in the reply"}
