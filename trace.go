package semel

import (
	"context"
	"net"
	"net/http/httptrace"
	"strings"
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
	outer := httptrace.ContextClientTrace(above)
	f.mu.Lock()
	defer f.mu.Unlock()
	a := f.ask()
	if !a.traced {
		a.traced = true
		f.hook(&a.trace, outer)
	}
	return &a.trace
}

// traced reports whether whoever sends the request looks at its hooks.
func (f *flight) traced() bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.asked != nil && f.asked.traced
}

// hook sets the hooks, besides those of the caller.
func (f *flight) hook(trace, outer *httptrace.ClientTrace) {
	if outer == nil {
		trace.GetConn, trace.GotConn = f.getConn, f.gotConn
	} else {
		*trace = *outer
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
	if f.counts != nil {
		trace.WroteHeaderField = func(name string, values []string) {
			f.wroteField(name, values)
			if outer != nil && outer.WroteHeaderField != nil {
				outer.WroteHeaderField(name, values)
			}
		}
	}
	if f.frozen == nil {
		return
	}
	// HTTP/2 gives a request that asks for a connection of its own the old one once more, and only then leaves it.
	trace.WroteHeaders = func() {
		if outer != nil && outer.WroteHeaders != nil {
			outer.WroteHeaders()
		}
		if f.reusedConn() == f.frozen {
			f.end(errFrozen)
		}
	}
}

// getConn runs before a connection is looked for. A protocol that was plugged into net/http's transport does not do that.
func (f *flight) getConn(string) { f.sought.Store(true) }

// gotConn runs before each send.
func (f *flight) gotConn(info httptrace.GotConnInfo) {
	f.mu.Lock()
	a := f.ask()
	a.reused = nil
	if info.Reused {
		a.reused = info.Conn
	}
	f.mu.Unlock()
	if f.counts != nil {
		return
	}
	if f.sends.Add(1) > f.limit && f.limit > 0 {
		f.end(errResend)
	}
}

// wroteField runs when a header is about to be written.
func (f *flight) wroteField(name string, values []string) {
	if len(values) > 0 && values[0] == f.header[0] && strings.EqualFold(name, f.counts.header()) {
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
	if f.asked == nil {
		return nil
	}
	return f.asked.reused
}
