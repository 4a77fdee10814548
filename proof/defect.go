package proof

import (
	"net/http"

	"github.com/semel-go/semel"
	"github.com/semel-go/semel/testserver"
)

// A defect changes one thing of the parts under test, by a wrapper around the real one. The zero defect changes nothing.
type defect struct {
	onBase      func(http.RoundTripper) http.RoundTripper         // below the client's Transport
	onTransport func(*semel.Transport)                            // its fields
	onRequest   func(*http.Request) *http.Request                 // what the caller asks for
	belief      func(Event) Event                                 // what the caller makes of what it is told
	onStore     func(testserver.Transactor) testserver.Transactor // below the guard
	onGuard     func(*testserver.Guard)                           // its fields
	onFront     func(http.Handler) http.Handler                   // in front of the guard
	onHandler   func(http.Handler) http.Handler                   // around the bank
	onFault     func(testserver.Fault) testserver.Fault           // what a fault on purpose does
}

func (d defect) base(b http.RoundTripper) http.RoundTripper { return with(d.onBase, b) }

func (d defect) request(r *http.Request) *http.Request { return with(d.onRequest, r) }

func (d defect) store(s testserver.Transactor) testserver.Transactor { return with(d.onStore, s) }

func (d defect) front(h http.Handler) http.Handler { return with(d.onFront, h) }

func (d defect) handler(h http.Handler) http.Handler { return with(d.onHandler, h) }

func (d defect) fault(f testserver.Fault) testserver.Fault { return with(d.onFault, f) }

func (d defect) transport(t *semel.Transport) {
	if d.onTransport != nil {
		d.onTransport(t)
	}
}

func (d defect) guard(g *testserver.Guard) {
	if d.onGuard != nil {
		d.onGuard(g)
	}
}

func with[T any](change func(T) T, v T) T {
	if change == nil {
		return v
	}
	return change(v)
}

// correct is the pair as it is.
func correct(*world) defect { return defect{} }
