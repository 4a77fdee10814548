package pgstore

import (
	"net"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// slowed returns an address in front of a server at which each request arrives a time later. Replies do not.
func slowed(t testing.TB, addr string, by time.Duration) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	t.Cleanup(func() { l.Close() })
	go func() {
		for {
			client, err := l.Accept()
			if err != nil {
				return
			}
			server, err := net.Dial("tcp", addr)
			if err != nil {
				client.Close()
				continue
			}
			go func() {
				defer server.Close()
				carry(server, client, by)
			}()
			go func() {
				defer client.Close()
				carry(client, server, 0)
			}()
		}
	}()
	return l.Addr().String()
}

// carry copies until either end closes. A later chunk does not wait for the delay of an earlier one.
func carry(to, from net.Conn, by time.Duration) {
	type chunk struct {
		due   time.Time
		bytes []byte
	}
	chunks := make(chan chunk, 1024)
	go func() {
		defer close(chunks)
		for {
			buf := make([]byte, 16<<10)
			n, err := from.Read(buf)
			if err != nil {
				return
			}
			chunks <- chunk{time.Now().Add(by), buf[:n]}
		}
	}()
	for c := range chunks {
		time.Sleep(time.Until(c.due))
		if _, err := to.Write(c.bytes); err != nil {
			from.Close()
		}
	}
}
