package semeltest

import (
	"io"
	"net"
	"os"
	"sync"
	"syscall"
	"time"
)

// A pipe carries bytes one way, as far as its cut lets them. Its writer never waits: net/http writes HTTP/2 frames under a
// lock, and in a synctest bubble somebody who waits for that lock keeps the time from passing that the writer waits for.
type pipe struct {
	latency time.Duration
	other   *pipe // the opposite direction of the same connection

	mu      *sync.Mutex // of the connection: a reset hits both directions at once
	cond    sync.Cond   // anything below changed, or a time came
	queue   []chunk
	limited bool  // cut is in force
	left    int64 // until it springs
	end     End
	stalled bool
	over    error // what the reader finds behind the queue
	overAt  time.Time
	broken  error // what the writer finds
	unread  bool  // the reader is gone
	readBy  deadline
	writeBy deadline
}

// A chunk is what one write brought, and when it is there.
type chunk struct {
	at    time.Time
	bytes []byte
}

func newPipes(p Plan) (up, down *pipe) {
	mu := new(sync.Mutex)
	up, down = &pipe{latency: p.Latency, mu: mu}, &pipe{latency: p.Latency, mu: mu}
	up.cond.L, down.cond.L = mu, mu
	up.other, down.other = down, up
	up.cut(p.Up)
	down.cut(p.Down)
	return up, down
}

// cut replaces the cut; its bytes are counted from now on.
func (p *pipe) cut(c Cut) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.limited, p.left, p.end = c.End != Open, max(c.After, 0), c.End
}

func (p *pipe) wake() {
	p.mu.Lock()
	p.cond.Broadcast()
	p.mu.Unlock()
}

func (p *pipe) read(b []byte) (int, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for {
		now := time.Now()
		switch {
		case p.unread:
			return 0, net.ErrClosed
		case p.readBy.passed(now):
			return 0, os.ErrDeadlineExceeded
		case len(p.queue) > 0 && !p.queue[0].at.After(now):
			return p.take(b), nil
		case len(p.queue) == 0 && p.over != nil && !p.overAt.After(now):
			return 0, p.over
		}
		p.cond.Wait()
	}
}

func (p *pipe) take(b []byte) int {
	head := &p.queue[0]
	n := copy(b, head.bytes)
	if head.bytes = head.bytes[n:]; len(head.bytes) == 0 {
		p.queue = p.queue[1:]
	}
	return n
}

func (p *pipe) write(b []byte) (int, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	switch {
	case p.broken != nil:
		return 0, p.broken
	case p.writeBy.passed(time.Now()):
		return 0, os.ErrDeadlineExceeded
	case p.stalled:
		return len(b), nil
	case p.unread: // the peer has closed: its kernel answers with a reset
		return 0, syscall.EPIPE
	case !p.limited || int64(len(b)) <= p.left:
		p.put(b)
	default:
		p.put(b[:p.left])
		p.spring() // the kernel takes this write, the next one fails
	}
	return len(b), nil
}

func (p *pipe) put(b []byte) {
	if len(b) == 0 {
		return
	}
	if p.limited {
		p.left -= int64(len(b))
	}
	p.queue = append(p.queue, chunk{time.Now().Add(p.latency), append([]byte(nil), b...)})
	p.arrive()
}

func (p *pipe) spring() {
	p.limited = false
	switch p.end {
	case Stall:
		p.stalled = true
	case FIN:
		p.finish(io.EOF, syscall.EPIPE)
	case RST:
		p.finish(syscall.ECONNRESET, syscall.ECONNRESET)
		p.other.abort(syscall.ECONNRESET)
	}
}

// finish ends the stream: the reader finds over behind the queue, the writer broken at once.
func (p *pipe) finish(over, broken error) {
	if p.over == nil {
		p.over, p.overAt = over, time.Now().Add(p.latency)
	}
	if p.broken == nil {
		p.broken = broken
	}
	p.arrive()
}

// arrive wakes whoever waits, now or when the latency has passed.
func (p *pipe) arrive() {
	if p.latency > 0 {
		time.AfterFunc(p.latency, p.wake)
	}
	p.cond.Broadcast()
}

// abort is finish from outside, with what is still on its way lost. The mutex is held.
func (p *pipe) abort(err error) {
	now := time.Now()
	for i, c := range p.queue {
		if c.at.After(now) {
			p.queue = p.queue[:i]
			break
		}
	}
	p.finish(err, err)
	p.cond.Broadcast()
}

// closeWrite is the writer's end of the stream. A stalled direction does not carry that either.
func (p *pipe) closeWrite(over error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.stalled || (p.limited && p.left == 0 && p.end == Stall) {
		p.broken = net.ErrClosed
		p.cond.Broadcast()
		return
	}
	p.finish(over, nil)
	p.broken = net.ErrClosed
	p.cond.Broadcast()
}

// closeRead is the reader's leave; it reports whether bytes were left unread.
func (p *pipe) closeRead() (unread bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	unread = len(p.queue) > 0
	p.unread, p.queue = true, nil
	p.readBy.set(time.Time{}, nil)
	p.cond.Broadcast()
	return unread
}

// A deadline is a time after which an operation fails.
type deadline struct {
	at    time.Time
	timer *time.Timer
}

func (d *deadline) set(t time.Time, wake func()) {
	if d.timer != nil {
		d.timer.Stop()
	}
	d.at, d.timer = t, nil
	if left := time.Until(t); !t.IsZero() && left > 0 {
		d.timer = time.AfterFunc(left, wake)
	}
}

func (d *deadline) passed(now time.Time) bool { return !d.at.IsZero() && !now.Before(d.at) }
