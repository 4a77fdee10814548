package semel

import (
	"context"
	"errors"
	"net"
	"net/http/httptrace"
	"sync"
	"sync/atomic"
	"time"
)

// A flight watches a request under way: it counts what is sent, and ends what takes too long. A nil flight watches
// nothing, which is enough for a request without effect and without a time limit.
type flight struct {
	timeout  time.Duration           // 0 for none
	cancel   context.CancelCauseFunc // nil if nothing may have to be ended, or if the flight does that by itself
	timer    *time.Timer             // nil without a timeout
	ends     bool                    // by itself
	counts   *Dialect                // whose header tells a send from what else the base does with its context; nil for none
	ended    atomic.Bool             // the attempt is over: its timer means nothing
	timedOut atomic.Bool
	moved    atomic.Uint32 // how often there was progress
	seen     uint32        // of that, by the last look
	quiet    int32         // looks without any since

	limit  int32        // sends that are allowed; 0 for any number
	sought atomic.Bool  // a connection was looked for
	sends  atomic.Int32 // requests that were written or about to be: those with the header, otherwise the connections given
	frozen net.Conn     // a connection not to wait for again

	mu     sync.Mutex
	asked  *asked      // nil until the base asks
	body   *bodyReader // what the base reads, if it is captured
	header [1]string   // the value of the key's header
	reply  passed      // as it is handed over, in the same allocation
}

var (
	errAttemptTimeout = errors.New("the attempt made no progress within its timeout")
	errFrozen         = errors.New("the connection had not answered before")
	errResend         = errors.New("net/http was about to send the request again by itself")
)

// An asked is what the base has asked for: the hooks, and when the attempt ends. What answers from memory asks for neither.
type asked struct {
	trace  httptrace.ClientTrace
	traced bool
	reused net.Conn // of the last send, if it had been used before
	ending ending
}

// ask returns what the base has asked for, for callers that hold f.mu.
func (f *flight) ask() *asked {
	if f.asked == nil {
		f.asked = new(asked)
	}
	return f.asked
}

// looks is how often within its timeout an attempt is looked at.
const looks = 8

// depart starts the attempt's time.
func (f *flight) depart() {
	if f == nil || f.timeout <= 0 {
		return
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	f.timer = time.AfterFunc(f.timeout/looks, f.look)
}

// progress starts the attempt's time anew. A long body calls it for each read, so it neither touches the timer nor asks
// what time it is.
func (f *flight) progress() {
	if f != nil {
		f.moved.Add(1)
	}
}

// look ends the attempt if it has been quiet for its timeout, which is counted from the first look after the last progress.
func (f *flight) look() {
	if f.ended.Load() || f.lookAgain() {
		return
	}
	f.timedOut.Store(true)
	f.end(errAttemptTimeout)
}

func (f *flight) lookAgain() bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.quiet++
	if moved := f.moved.Load(); moved != f.seen {
		f.seen, f.quiet = moved, 0
	}
	next := f.timeout / looks
	switch f.quiet {
	case looks:
		return false
	case looks - 1:
		next = f.timeout - (looks-1)*next
	}
	f.timer.Reset(next)
	return true
}

// late reports whether the attempt's time ran out.
func (f *flight) late() bool { return f != nil && f.timedOut.Load() }

// stop ends the attempt's time, and reports whether it had run out.
func (f *flight) stop() (late bool) {
	if f == nil {
		return false
	}
	if f.timer != nil {
		f.ended.Store(true)
		f.timer.Stop()
	}
	return f.timedOut.Load()
}

// land releases what the attempt holds. The base must be done with it, reply included.
func (f *flight) land() {
	f.stop()
	if f != nil && (f.cancel != nil || f.followed()) {
		f.end(context.Canceled)
	}
}
