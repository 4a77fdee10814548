package semeltest

import (
	"context"
	"errors"
	"io"
	"net"
	"sync"
)

// A Proxy breaks real TCP connections by plans, as a [Network] breaks simulated ones. The zero Proxy is ready: use
// DialContext in the client, or Listen to stand before a server for clients that dial by themselves.
type Proxy struct {
	// Upstream is the host:port that connections to the proxy's listener go to. DialContext takes its own.
	Upstream string
	// Plan says what goes wrong on each connection, numbered from 1; if nil, nothing does. It may be called from several
	// goroutines at once.
	Plan func(conn int) Plan

	mu       sync.Mutex
	dials    int
	sessions map[*session]bool
	listener net.Listener
	closed   bool
	running  sync.WaitGroup
}

// A tunnel is the client's end of a connection through the proxy.
type tunnel struct {
	*net.TCPConn
	client *conn // the simulated end that carries the plan
}

// Listen accepts connections on a free port of the loopback interface and returns its address.
func (p *Proxy) Listen() (string, error) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return "", err
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.closed || p.listener != nil {
		l.Close()
		return "", errors.New("semeltest: the proxy is closed or listens already")
	}
	p.listener = l
	p.running.Go(func() { p.serve(l) })
	return l.Addr().String(), nil
}

func (p *Proxy) serve(l net.Listener) {
	for {
		c, err := l.Accept()
		if err != nil {
			return
		}
		p.running.Go(func() {
			near := c.(*net.TCPConn)
			if _, err := p.connect(context.Background(), near, "tcp", p.Upstream); err != nil {
				reset(near)
			}
		})
	}
}

// DialContext connects to the address, through the proxy. It suits [net/http.Transport].
func (p *Proxy) DialContext(ctx context.Context, network, address string) (net.Conn, error) {
	near, end, err := tcpPair(ctx)
	if err != nil {
		return nil, err
	}
	client, err := p.connect(ctx, near, network, address)
	if err != nil {
		near.Close()
		end.Close()
		if oe := (*net.OpError)(nil); !errors.As(err, &oe) {
			err = &net.OpError{Op: "dial", Net: network, Addr: addr(address), Err: err}
		}
		return nil, err
	}
	return &tunnel{end, client}, nil
}

// tcpPair returns the two ends of a TCP connection on the loopback interface.
func tcpPair(ctx context.Context) (near, end *net.TCPConn, err error) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, nil, err
	}
	defer l.Close()
	for {
		c, err := new(net.Dialer).DialContext(ctx, "tcp", l.Addr().String())
		if err != nil {
			return nil, nil, err
		}
		a, err := l.Accept()
		if err != nil {
			c.Close()
			return nil, nil, err
		}
		if a.RemoteAddr().String() == c.LocalAddr().String() {
			return a.(*net.TCPConn), c.(*net.TCPConn), nil
		}
		a.Close() // somebody else's
		c.Close()
	}
}

// connect dials the far end by the connection's plan and starts to relay.
func (p *Proxy) connect(ctx context.Context, near *net.TCPConn, network, address string) (*conn, error) {
	p.mu.Lock()
	p.dials++
	id := p.dials
	p.mu.Unlock()
	var plan Plan
	if p.Plan != nil {
		plan = p.Plan(id)
	}
	if err := pause(ctx, plan.DialDelay+2*plan.Latency); err != nil {
		return nil, err
	}
	if plan.DialError != nil {
		return nil, plan.DialError
	}
	far, err := new(net.Dialer).DialContext(ctx, network, address)
	if err != nil {
		return nil, err
	}
	s := &session{near: near, far: far.(*net.TCPConn)}
	s.client, s.server = newConns(id, plan)
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.closed {
		far.Close()
		return nil, net.ErrClosed
	}
	if p.sessions == nil {
		p.sessions = make(map[*session]bool)
	}
	p.sessions[s] = true
	p.running.Go(func() {
		s.run()
		p.mu.Lock()
		delete(p.sessions, s)
		p.mu.Unlock()
	})
	return s.client, nil
}

// Close ends the listener and all connections, and waits until nothing of the proxy runs.
func (p *Proxy) Close() error {
	p.mu.Lock()
	p.closed = true
	if p.listener != nil {
		p.listener.Close()
	}
	for s := range p.sessions {
		s.close()
	}
	p.mu.Unlock()
	p.running.Wait()
	return nil
}

// A session relays one real connection to another through a simulated one, which does the breaking.
type session struct {
	near, far      *net.TCPConn
	client, server *conn
}

func (s *session) run() {
	var copies sync.WaitGroup
	copies.Go(func() { s.in(s.client, s.near) })
	copies.Go(func() { s.out(s.far, s.server) })
	copies.Go(func() { s.in(s.server, s.far) })
	copies.Go(func() { s.out(s.near, s.client) })
	copies.Wait()
	s.close()
}

// in copies from a real connection into the simulated one.
func (s *session) in(sim *conn, real *net.TCPConn) {
	buf := make([]byte, 16<<10)
	for {
		n, err := real.Read(buf)
		if n > 0 {
			if _, failed := sim.Write(buf[:n]); failed != nil {
				reset(real) // what a kernel does when the reader is gone
				return
			}
		}
		if err == io.EOF {
			sim.CloseWrite()
			return
		}
		if err != nil {
			sim.reset()
			return
		}
	}
}

// out copies from the simulated connection to a real one.
func (s *session) out(real *net.TCPConn, sim *conn) {
	switch _, err := io.Copy(real, struct{ io.Reader }{sim}); {
	case err == nil:
		real.CloseWrite()
	case errors.Is(err, net.ErrClosed):
	default: // what came before the reset has been delivered
		sim.reset()
		reset(real)
	}
}

func (s *session) close() {
	s.near.Close()
	s.far.Close()
	s.client.Close()
	s.server.Close()
}

// reset closes with a RST.
func reset(c *net.TCPConn) {
	c.SetLinger(0)
	c.Close()
}
