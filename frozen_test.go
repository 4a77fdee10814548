package semel_test

import (
	"context"
	"net"
	"net/http"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/semel-go/semel"
	"github.com/semel-go/semel/testserver"
)

// An icebox is a network whose open connections can be frozen: they stay open, and nothing passes any more.
type icebox struct {
	age   atomic.Int32
	dials atomic.Int32
}

func (b *icebox) dial(ctx context.Context, network, addr string) (net.Conn, error) {
	b.dials.Add(1)
	c, err := new(net.Dialer).DialContext(ctx, network, addr)
	if err != nil {
		return nil, err
	}
	return &freezable{Conn: c, box: b, age: b.age.Load(), closed: make(chan struct{})}, nil
}

type freezable struct {
	net.Conn
	box    *icebox
	age    int32
	done   atomic.Bool
	closed chan struct{}
}

func (c *freezable) frozen() bool { return c.box.age.Load() > c.age }

func (c *freezable) Read(p []byte) (int, error) {
	n, err := c.Conn.Read(p)
	if c.frozen() && !c.done.Load() {
		<-c.closed
		return 0, net.ErrClosed
	}
	return n, err
}

func (c *freezable) Write(p []byte) (int, error) {
	if c.frozen() {
		return len(p), nil
	}
	return c.Conn.Write(p)
}

func (c *freezable) Close() error {
	if !c.done.Swap(true) {
		close(c.closed)
	}
	return c.Conn.Close()
}

func TestFrozenConnectionIsLeft(t *testing.T) {
	for name, tls := range map[string]bool{"HTTP/1.1": false, "HTTP/2": true} {
		t.Run(name, func(t *testing.T) {
			s := testserver.New()
			s.TLS = tls
			require.NoError(t, s.Start())
			t.Cleanup(func() { require.NoError(t, s.Close()) })
			var box icebox
			base := s.Client().Transport.(*http.Transport).Clone()
			base.DialContext = box.dial
			t.Cleanup(base.CloseIdleConnections)
			client := &semel.Client{HTTP: (&semel.Transport{
				Base: base,
				Retry: semel.Policy{
					AttemptTimeout: 1500 * time.Millisecond,
					Backoff:        func() semel.Backoff { return steady(time.Millisecond) },
				},
			}).Client()}
			for n := range 2 {
				op := semel.NewOperation("")
				resp, err := client.Do(postTransfer(op.Context(t.Context()), s.URL+"/transfers"))
				require.NoError(t, err)
				require.NoError(t, resp.Body.Close())
				require.Equal(t, tls, resp.ProtoMajor == 2)
				require.Equal(t, 1, s.Bank.Effects(op.Key()))
				if n == 0 {
					box.age.Add(1) // freezes what is open
				}
			}
			require.GreaterOrEqual(t, box.dials.Load(), int32(2))
		})
	}
}

// The last attempt has no time limit of its own, for the caller's comes first; it leaves the connection all the same.
func TestFrozenConnectionIsLeftByTheLastAttemptToo(t *testing.T) {
	s := testserver.New()
	s.TLS = true
	require.NoError(t, s.Start())
	t.Cleanup(func() { require.NoError(t, s.Close()) })
	var box icebox
	base := s.Client().Transport.(*http.Transport).Clone()
	base.DialContext = box.dial
	t.Cleanup(base.CloseIdleConnections)
	client := &semel.Client{HTTP: (&semel.Transport{Base: base, Retry: semel.Policy{
		AttemptTimeout: 500 * time.Millisecond,
		Backoff:        func() semel.Backoff { return steady(time.Millisecond) },
	}}).Client()}
	op := semel.NewOperation("")
	resp, err := client.Do(postTransfer(op.Context(t.Context()), s.URL+"/transfers"))
	require.NoError(t, err)
	require.NoError(t, resp.Body.Close())
	box.age.Add(1)
	ctx, cancel := context.WithTimeout(t.Context(), 900*time.Millisecond)
	defer cancel()
	op = semel.NewOperation("")
	resp, err = client.Do(postTransfer(op.Context(ctx), s.URL+"/transfers"))
	if err != nil { // a machine may be too slow
		require.ErrorIs(t, err, semel.Unknown)
		return
	}
	require.NoError(t, resp.Body.Close())
	require.Equal(t, 1, s.Bank.Effects(op.Key()))
}
