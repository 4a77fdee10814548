package semeltest

import "time"

// A Plan says what goes wrong on one connection. The zero Plan is a connection without faults and without delay.
type Plan struct {
	DialError error         // the dial fails with it, for example with syscall.ECONNREFUSED
	DialDelay time.Duration // before the dial succeeds or fails
	Latency   time.Duration // one way, in both directions; a dial takes two
	Up        Cut           // client to server
	Down      Cut           // server to client
}

// A Cut ends one direction of a connection after so many bytes. These arrive; the first byte past them springs the end.
// The zero Cut lets everything pass.
type Cut struct {
	After int64
	End   End
}

// An End is what the two peers notice of a cut.
type End int

const (
	Open  End = iota // there is no cut
	FIN              // the reader finds the end of the stream, the writer a broken pipe; the other direction stays open
	RST              // both find the connection reset
	Stall            // the bytes vanish, and nobody is told
)

func (e End) String() string {
	return [...]string{"open", "FIN", "RST", "stall"}[e]
}
