package proof

import (
	"net"
	"testing"

	"github.com/semel-go/semel/semeltest"
	"golang.org/x/net/nettest"
)

func TestSimulatedConnIsAConn(t *testing.T) {
	nettest.TestConn(t, func() (c1, c2 net.Conn, stop func(), err error) {
		var n semeltest.Network
		l := n.Listen()
		if c1, err = n.DialContext(t.Context(), "tcp", "anywhere:80"); err != nil {
			return nil, nil, nil, err
		}
		c2, err = l.Accept()
		return c1, c2, func() { c1.Close(); c2.Close(); l.Close() }, err
	})
}

func TestProxiedConnIsAConn(t *testing.T) {
	nettest.TestConn(t, func() (c1, c2 net.Conn, stop func(), err error) {
		var p semeltest.Proxy
		l, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			return nil, nil, nil, err
		}
		if c1, err = p.DialContext(t.Context(), "tcp", l.Addr().String()); err != nil {
			return nil, nil, nil, err
		}
		c2, err = l.Accept()
		return c1, c2, func() { c1.Close(); c2.Close(); p.Close(); l.Close() }, err
	})
}
