package pgstore_test

import (
	"bufio"
	"encoding/binary"
	"io"
	"net"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgproto3"
)

// A wireFault is what happens to one statement between a server and its database.
type wireFault int

const (
	pass        wireFault = iota
	loseRequest           // the statement never arrives, and the connection is reset
	loseAnswer            // it is executed, and the connection is reset in place of the answer
	stall                 // it never arrives, and the connection stays open
	stallAnswer           // it is executed, and nothing comes back
)

// A faultProxy stands between a server and Postgres. It reads the wire protocol, so that faults hit chosen statements,
// prepared and pipelined ones too.
type faultProxy struct {
	upstream string
	listener net.Listener
	delay    atomic.Int64 // nanoseconds, for each burst in each direction
	fault    atomic.Pointer[func(sql string) wireFault]
	down     atomic.Bool // connections are reset as they come
	group    sync.WaitGroup

	mu    sync.Mutex // guards conns
	conns map[*proxyConn]bool
}

func newFaultProxy(tb testing.TB, upstream string) *faultProxy {
	tb.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		tb.Fatal(err)
	}
	p := &faultProxy{upstream: upstream, listener: l, conns: make(map[*proxyConn]bool)}
	p.group.Go(p.serve)
	tb.Cleanup(func() {
		l.Close()
		p.down.Store(true)
		p.Reset()
		p.group.Wait()
	})
	return p
}

func (p *faultProxy) addr() string { return p.listener.Addr().String() }

// Inject lets f decide about every statement that is executed from now on; nil ends that. It is called by several
// goroutines at once.
func (p *faultProxy) Inject(f func(sql string) wireFault) {
	if f == nil {
		p.fault.Store(nil)
		return
	}
	p.fault.Store(&f)
}

// onCommits injects a fault into the first n COMMITs and returns a count of those that came.
func (p *faultProxy) onCommits(n int64, fault wireFault) *atomic.Int64 {
	var seen atomic.Int64
	p.Inject(func(sql string) wireFault {
		if !isCommit(sql) || seen.Add(1) > n {
			return pass
		}
		return fault
	})
	return &seen
}

// Reset resets all connections.
func (p *faultProxy) Reset() {
	p.mu.Lock()
	defer p.mu.Unlock()
	for c := range p.conns {
		c.cut()
	}
}

func isCommit(sql string) bool {
	sql = strings.ToUpper(strings.TrimSpace(sql))
	return strings.HasPrefix(sql, "COMMIT") || strings.HasSuffix(strings.TrimRight(sql, "; "), "COMMIT")
}

func (p *faultProxy) serve() {
	for {
		near, err := p.listener.Accept()
		if err != nil {
			return
		}
		far, err := net.Dial("tcp", p.upstream)
		if err != nil || p.down.Load() {
			reset(near)
			if err == nil {
				reset(far)
			}
			continue
		}
		c := &proxyConn{proxy: p, near: near, far: far, named: map[string]string{}, portals: map[string]string{}}
		c.due.Store(1) // the server is ready once without having been asked
		p.mu.Lock()
		p.conns[c] = true
		p.mu.Unlock()
		if p.down.Load() {
			c.cut()
		}
		p.group.Go(func() {
			var both sync.WaitGroup
			both.Go(func() { c.requests(); c.cut() })
			both.Go(func() { c.answers(); c.cut() })
			both.Wait()
			p.mu.Lock()
			delete(p.conns, c)
			p.mu.Unlock()
		})
	}
}

type proxyConn struct {
	proxy     *faultProxy
	near, far net.Conn

	named, portals map[string]string // SQL by name of statement and portal
	due            atomic.Int64      // how often the server was asked to say that it is ready
	cutAt          atomic.Int64      // 0, or at how many of those the connection is cut, all answers being swallowed
	mute           atomic.Bool       // answers are swallowed
}

func (c *proxyConn) cut() {
	reset(c.near)
	reset(c.far)
}

func reset(c net.Conn) {
	_ = c.(*net.TCPConn).SetLinger(0)
	c.Close()
}

func (c *proxyConn) pause() {
	if d := c.proxy.delay.Load(); d > 0 {
		time.Sleep(time.Duration(d))
	}
}

// requests relays what the server's client says.
func (c *proxyConn) requests() {
	r := bufio.NewReader(c.near)
	frame, err := readFrame(r, false) // the start-up message has no type
	if err == nil {
		_, err = c.far.Write(frame)
	}
	for err == nil {
		idle := r.Buffered() == 0
		if frame, err = readFrame(r, true); err != nil {
			return
		}
		if idle {
			c.pause()
		}
		switch c.faultOn(frame) {
		case loseRequest:
			return
		case stall:
			_, _ = io.Copy(io.Discard, r)
			return
		case loseAnswer:
			c.cutAt.Store(c.due.Load() + 1)
			c.mute.Store(true)
		case stallAnswer:
			c.mute.Store(true)
		}
		if frame[0] == 'Q' || frame[0] == 'S' {
			c.due.Add(1)
		}
		_, err = c.far.Write(frame)
	}
}

func (c *proxyConn) faultOn(frame []byte) wireFault {
	sql, ok := c.executes(frame)
	if f := c.proxy.fault.Load(); ok && f != nil {
		return (*f)(sql)
	}
	return pass
}

// executes keeps track of statement names, and returns the SQL that the frame executes, if it does.
func (c *proxyConn) executes(frame []byte) (sql string, ok bool) {
	body := frame[5:]
	switch frame[0] {
	case 'Q':
		var m pgproto3.Query
		if m.Decode(body) == nil {
			return m.String, true
		}
	case 'P':
		var m pgproto3.Parse
		if m.Decode(body) == nil {
			c.named[m.Name] = m.Query
		}
	case 'B':
		var m pgproto3.Bind
		if m.Decode(body) == nil {
			c.portals[m.DestinationPortal] = c.named[m.PreparedStatement]
		}
	case 'E':
		var m pgproto3.Execute
		if m.Decode(body) == nil {
			return c.portals[m.Portal], true
		}
	}
	return "", false
}

// answers relays what Postgres says.
func (c *proxyConn) answers() {
	r := bufio.NewReader(c.far)
	var ready int64
	for {
		idle := r.Buffered() == 0
		frame, err := readFrame(r, true)
		if err != nil {
			return
		}
		if idle {
			c.pause()
		}
		if frame[0] == 'Z' {
			if ready++; ready == c.cutAt.Load() {
				return
			}
		}
		if c.mute.Load() {
			continue
		}
		if _, err := c.near.Write(frame); err != nil {
			return
		}
	}
}

// readFrame reads one message whole.
func readFrame(r *bufio.Reader, typed bool) ([]byte, error) {
	head := make([]byte, 4, 5)
	if typed {
		head = head[:5]
	}
	if _, err := io.ReadFull(r, head); err != nil {
		return nil, err
	}
	size := int(binary.BigEndian.Uint32(head[len(head)-4:])) - 4
	if size < 0 || size > 64<<20 {
		return nil, io.ErrUnexpectedEOF
	}
	frame := make([]byte, len(head)+size)
	copy(frame, head)
	_, err := io.ReadFull(r, frame[len(head):])
	return frame, err
}
