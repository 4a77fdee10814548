package semel

import (
	"context"
	"net"
	"net/http/httptrace"
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

// watch counts the connections that the request is given, besides whatever hooks the caller has.
func (y *try) watch() {
	outer := httptrace.ContextClientTrace(y.Context)
	if outer == nil {
		y.trace.GotConn = y.gotConn
	} else {
		y.trace = *outer
		y.trace.GotConn = func(info httptrace.GotConnInfo) {
			y.gotConn(info)
			if outer.GotConn != nil {
				outer.GotConn(info)
			}
		}
	}
	if y.call.frozen == nil {
		return
	}
	// HTTP/2 gives a request that asks for a connection of its own the old one once more and only then leaves it: there
	// is nothing to wait for on one that is frozen.
	y.trace.WroteHeaders = func() {
		if outer != nil && outer.WroteHeaders != nil {
			outer.WroteHeaders()
		}
		if y.reusedConn() == y.call.frozen {
			y.cancel(errFrozen)
		}
	}
}

// gotConn runs before each send. A keyed attempt is one send. Without a key net/http repeats only what was not processed,
// but over HTTP/2 without end (golang/go#52459).
func (y *try) gotConn(info httptrace.GotConnInfo) {
	y.connMu.Lock()
	y.reused = nil
	if info.Reused {
		y.reused = info.Conn
	}
	y.connMu.Unlock()
	limit := int32(3)
	if y.call.keyed {
		limit = 1
	}
	if y.conns.Add(1) > limit && y.cancel != nil {
		y.cancel(errResend)
	}
}

// reusedConn is the connection of the last send, nil if that was a fresh one.
func (y *try) reusedConn() net.Conn {
	y.connMu.Lock()
	defer y.connMu.Unlock()
	return y.reused
}

// sent returns how many requests went out for the attempt.
func (y *try) sent() int {
	if n := int(y.conns.Load()); n > 0 {
		return n
	}
	if y.err != nil && (y.fault == unsent || y.fault == local || y.fault == certificate) {
		return 0
	}
	if y.err != nil && y.fault == caller && y.silent() {
		return 0
	}
	return 1
}

// silent reports whether the request provably got no connection.
func (y *try) silent() bool {
	return !y.call.safe && y.conns.Load() == 0 && y.asked.Load() && y.call.t.standard()
}
