package semeltest

import (
	"errors"
	"io"
	"net"
	"strconv"
	"sync"
	"syscall"
	"time"
)

// A conn is one end of a simulated connection.
type conn struct {
	in, out       *pipe
	local, remote addr
	once          sync.Once
	closed        func() // tells the network, may be nil
}

// newConns returns the client's and the server's end of a connection.
func newConns(id int, p Plan) (client, server *conn) {
	up, down := newPipes(p)
	client = &conn{in: down, out: up, local: addr("client:" + strconv.Itoa(id)), remote: "server:1"}
	server = &conn{in: up, out: down, local: client.remote, remote: client.local}
	return client, server
}

func (c *conn) Read(b []byte) (int, error) {
	n, err := c.in.read(b)
	return n, c.wrap("read", err)
}

func (c *conn) Write(b []byte) (int, error) {
	n, err := c.out.write(b)
	return n, c.wrap("write", err)
}

// Close sends a FIN, or a RST if there is something unread, as kernels do.
func (c *conn) Close() error {
	c.once.Do(func() {
		var over error = io.EOF
		if c.in.closeRead() {
			over = syscall.ECONNRESET
		}
		c.out.closeWrite(over)
		if c.closed != nil {
			c.closed()
		}
	})
	return nil
}

// CloseWrite sends a FIN; the other direction stays open.
func (c *conn) CloseWrite() error {
	c.out.closeWrite(io.EOF)
	return nil
}

// reset breaks the connection in both directions.
func (c *conn) reset() {
	c.in.mu.Lock()
	defer c.in.mu.Unlock()
	c.in.abort(syscall.ECONNRESET)
	c.out.abort(syscall.ECONNRESET)
}

func (c *conn) LocalAddr() net.Addr  { return c.local }
func (c *conn) RemoteAddr() net.Addr { return c.remote }

func (c *conn) SetDeadline(t time.Time) error {
	return errors.Join(c.SetReadDeadline(t), c.SetWriteDeadline(t))
}

func (c *conn) SetReadDeadline(t time.Time) error {
	c.in.setDeadline(&c.in.readBy, t)
	return nil
}

func (c *conn) SetWriteDeadline(t time.Time) error {
	c.out.setDeadline(&c.out.writeBy, t)
	return nil
}

func (p *pipe) setDeadline(d *deadline, t time.Time) {
	p.mu.Lock()
	defer p.mu.Unlock()
	d.set(t, p.wake)
	p.cond.Broadcast()
}

func (c *conn) wrap(op string, err error) error {
	if err == nil || err == io.EOF {
		return err
	}
	return &net.OpError{Op: op, Net: "sim", Source: c.local, Addr: c.remote, Err: err}
}

// An addr is an address on the simulated network.
type addr string

func (addr) Network() string  { return "sim" }
func (a addr) String() string { return string(a) }
