package semel

import (
	"context"
	"errors"
	"net"
	"net/http/httptrace"
	"strings"
	"sync"
	"sync/atomic"
	"time"
)

// A flight watches a request under way: it counts what is sent, and ends what takes too long. A nil flight watches
// nothing, which is enough for a request without effect and without a time limit.
type flight struct {
	timeout  time.Duration           // 0 for none
	cancel   context.CancelCauseFunc // nil if nothing may have to be cancelled
	timer    *time.Timer             // nil without a timeout
	ended    atomic.Bool             // the attempt is over: its timer means nothing
	timedOut atomic.Bool
	moved    atomic.Uint32 // how often there was progress
	seen     uint32        // of that, by the last look
	quiet    int32         // looks without any since

	limit int32 // sends that are allowed; 0 for any number

	frozen net.Conn     // a connection not to wait for again
	named  string       // the header by which a send is told from what else the base does with its context; "" for none
	sought atomic.Bool  // a connection was looked for
	sends  atomic.Int32 // requests that were written or about to be: those with the header, otherwise the connections given
	trace  atomic.Pointer[httptrace.ClientTrace]

	mu     sync.Mutex
	reused net.Conn // of the last send, if it had been used before

	body *bodyReader // what the base reads, if it is captured

	// In the same allocation: the value of the key's header, and the reply as it is handed over.
	header [1]string
	passed passed
	memory memoryBody
}

var (
	errAttemptTimeout = errors.New("the attempt made no progress within its timeout")
	errFrozen         = errors.New("the connection had not answered before")
	errResend         = errors.New("net/http was about to send the request again by itself")
)

// traceKey is how httptrace finds its hooks in a context. A try answers to it, which spares a context and the reflection
// by which hooks are composed.
var traceKey = func() any {
	var p keyProbe
	httptrace.ContextClientTrace(&p)
	return p.key
}()

type keyProbe struct {
	context.Context
	key any
}

func (p *keyProbe) Value(key any) any { p.key = key; return nil }

// hooks are made when whoever sends the request first asks for them. Above is the context that holds the caller's.
func (f *flight) hooks(above context.Context) *httptrace.ClientTrace {
	if f.trace.Load() == nil {
		f.trace.CompareAndSwap(nil, f.newTrace(httptrace.ContextClientTrace(above)))
	}
	return f.trace.Load()
}

// asked reports whether whoever sends the request looks at its trace.
func (f *flight) asked() bool { return f.trace.Load() != nil }

// newTrace makes the hooks, besides those of the caller.
func (f *flight) newTrace(outer *httptrace.ClientTrace) *httptrace.ClientTrace {
	var trace httptrace.ClientTrace
	if outer == nil {
		trace.GetConn, trace.GotConn = f.getConn, f.gotConn
	} else {
		trace = *outer
		trace.GetConn = func(hostPort string) {
			f.getConn(hostPort)
			if outer.GetConn != nil {
				outer.GetConn(hostPort)
			}
		}
		trace.GotConn = func(info httptrace.GotConnInfo) {
			f.gotConn(info)
			if outer.GotConn != nil {
				outer.GotConn(info)
			}
		}
	}
	if f.named != "" {
		trace.WroteHeaderField = func(name string, values []string) {
			f.wroteField(name, values)
			if outer != nil && outer.WroteHeaderField != nil {
				outer.WroteHeaderField(name, values)
			}
		}
	}
	if f.frozen == nil {
		return &trace
	}
	// HTTP/2 gives a request that asks for a connection of its own the old one once more, and only then leaves it.
	trace.WroteHeaders = func() {
		if outer != nil && outer.WroteHeaders != nil {
			outer.WroteHeaders()
		}
		if f.reusedConn() == f.frozen {
			f.cancel(errFrozen)
		}
	}
	return &trace
}

// getConn runs before a connection is looked for. A protocol that was plugged into net/http's transport does not do that.
func (f *flight) getConn(string) { f.sought.Store(true) }

// gotConn runs before each send.
func (f *flight) gotConn(info httptrace.GotConnInfo) {
	f.mu.Lock()
	f.reused = nil
	if info.Reused {
		f.reused = info.Conn
	}
	f.mu.Unlock()
	if f.named != "" {
		return
	}
	if f.sends.Add(1) > f.limit && f.limit > 0 && f.cancel != nil {
		f.cancel(errResend)
	}
}

// wroteField runs when a header is about to be written.
func (f *flight) wroteField(name string, values []string) {
	if strings.EqualFold(name, f.named) && len(values) > 0 && values[0] == f.header[0] {
		f.sends.Add(1)
	}
}

// reusedConn is the connection of the last send, nil if that was a fresh one.
func (f *flight) reusedConn() net.Conn {
	if f == nil {
		return nil
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.reused
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
	f.cancel(errAttemptTimeout)
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
	f.ended.Store(true)
	if f.timer != nil {
		f.timer.Stop()
	}
	return f.timedOut.Load()
}

// land releases what the attempt holds. The base must be done with it, reply included.
func (f *flight) land() {
	f.stop()
	if f != nil && f.cancel != nil {
		f.cancel(nil)
	}
}
