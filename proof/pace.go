package proof

import (
	"time"

	"github.com/semel-go/semel/semeltest"
)

// realPace is how much quicker worlds are in real time.
const realPace = 20

// real makes the plan one for real time and real sockets: quick, without what takes hours.
func (p *plan) real() *plan {
	q := *p
	q.pace = realPace
	q.direct, q.brief, q.outlives, q.retention = false, false, false, 0
	q.lease, q.restart, q.down = q.paced(p.lease), q.paced(p.restart), q.paced(p.down)
	q.jobs = nil
	for _, j := range p.jobs {
		callers := j.callers
		j.callers = nil
		for _, c := range callers {
			c.at, c.deadline, c.cancel = q.paced(c.at), q.paced(c.deadline), q.paced(c.cancel)
			c.timeout, c.back, c.prefers = q.paced(c.timeout), q.paced(c.back), 0
			j.callers = append(j.callers, c)
		}
		q.jobs = append(q.jobs, j)
	}
	q.conn = func(n int) semeltest.Plan {
		c := p.conn(n)
		c.Latency, c.DialDelay = q.paced(c.Latency), q.paced(c.DialDelay)
		return c
	}
	q.copied = func(job, arrival int) (time.Duration, bool) {
		after, yes := p.copied(job, arrival)
		return q.paced(after), yes
	}
	return &q
}

// paced is how long something takes at the plan's pace; in real time never more than two seconds.
func (p *plan) paced(d time.Duration) time.Duration {
	if p.pace == 1 {
		return d
	}
	return min(d/time.Duration(p.pace), 2*time.Second)
}

// firstWait is the client's first pause.
func (p *plan) firstWait() time.Duration { return p.paced(400 * time.Millisecond) }

func (p *plan) attemptTimeout(calm bool) time.Duration {
	if calm {
		return 5 * time.Second // nothing is lost any more; a machine may be slow
	}
	return p.paced(5 * time.Second)
}

// lull is a time in which leases lapse.
func (p *plan) lull() time.Duration {
	if p.pace == 1 {
		return time.Minute
	}
	return 3 * p.lease
}

// blur is how far what is written down may be from when it was.
func (p *plan) blur() time.Duration {
	if p.pace == 1 {
		return 0
	}
	return 5 * time.Millisecond
}
