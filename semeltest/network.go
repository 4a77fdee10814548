package semeltest

import (
	"context"
	"maps"
	"net"
	"slices"
	"sync"
	"syscall"
	"time"
)

// A Network is a network in memory, with one machine that listens. Its connections are buffered like those of TCP and
// break as their plans say. It works in a testing/synctest bubble, where its delays take no time, as well as outside. The
// zero Network is ready and has no faults.
type Network struct {
	// Plan says what goes wrong on each connection, numbered from 1 in the order of the dials; if nil, nothing does. It
	// may be called from several goroutines at once.
	Plan func(conn int) Plan

	mu       sync.Mutex
	listener *listener
	dials    int
	open     map[int]*conn // the servers' ends
}

// Listen makes the network accept connections. It replaces the listener before it, as a restarted server does; while there
// is none, or it is closed, dials are refused.
func (n *Network) Listen() net.Listener {
	l := new(listener)
	l.cond.L = &l.mu
	n.mu.Lock()
	old := n.listener
	n.listener = l
	n.mu.Unlock()
	if old != nil {
		old.Close()
	}
	return l
}

// DialContext connects to the listener, whatever the address. It suits [net/http.Transport].
func (n *Network) DialContext(ctx context.Context, network, address string) (net.Conn, error) {
	c, err := n.dial(ctx)
	if err != nil {
		return nil, &net.OpError{Op: "dial", Net: network, Addr: addr(address), Err: err}
	}
	return c, nil
}

func (n *Network) dial(ctx context.Context) (*conn, error) {
	n.mu.Lock()
	n.dials++
	id := n.dials
	n.mu.Unlock()
	var plan Plan
	if n.Plan != nil {
		plan = n.Plan(id)
	}
	if err := pause(ctx, plan.DialDelay+2*plan.Latency); err != nil {
		return nil, err
	}
	if plan.DialError != nil {
		return nil, plan.DialError
	}
	client, server := newConns(id, plan)
	n.mu.Lock()
	l := n.listener
	if n.open == nil {
		n.open = make(map[int]*conn)
	}
	n.open[id] = server
	n.mu.Unlock()
	server.closed = func() { n.forget(id) }
	if l == nil || !l.offer(server) {
		n.forget(id)
		return nil, syscall.ECONNREFUSED
	}
	return client, nil
}

func (n *Network) forget(id int) {
	n.mu.Lock()
	delete(n.open, id)
	n.mu.Unlock()
}

// Reset closes the listener and resets every connection, as the death of the server's process does.
func (n *Network) Reset() {
	n.mu.Lock()
	l := n.listener
	var open []*conn
	for _, id := range slices.Sorted(maps.Keys(n.open)) {
		open = append(open, n.open[id])
	}
	n.mu.Unlock()
	if l != nil {
		l.Close()
	}
	for _, c := range open {
		c.reset()
	}
}

// pause waits, or returns the context's error when that ends first.
func pause(ctx context.Context, d time.Duration) error {
	if d <= 0 {
		return ctx.Err()
	}
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// A listener hands out the servers' ends of connections.
type listener struct {
	mu     sync.Mutex
	cond   sync.Cond
	queue  []*conn
	closed bool
}

func (l *listener) offer(c *conn) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.closed {
		return false
	}
	l.queue = append(l.queue, c)
	l.cond.Signal()
	return true
}

func (l *listener) Accept() (net.Conn, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for len(l.queue) == 0 && !l.closed {
		l.cond.Wait()
	}
	if l.closed {
		return nil, &net.OpError{Op: "accept", Net: "sim", Addr: l.Addr(), Err: net.ErrClosed}
	}
	c := l.queue[0]
	l.queue = l.queue[1:]
	return c, nil
}

func (l *listener) Close() error {
	l.mu.Lock()
	l.closed = true
	queue := l.queue
	l.queue = nil
	l.cond.Broadcast()
	l.mu.Unlock()
	for _, c := range queue { // connected, but never accepted
		c.reset()
		c.Close()
	}
	return nil
}

func (l *listener) Addr() net.Addr { return addr("server:1") }
