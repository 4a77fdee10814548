package proof

import (
	"context"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/http/httptrace"
	"strings"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/semel-go/semel/semeltest"
)

// A directTrip calls the server's handler where a transport would dial: the quick way. It keeps a transport's promises, and
// loses replies by the world's plan of connections, one for each request.
type directTrip struct {
	world *world
	dials atomic.Int32
}

func (d *directTrip) RoundTrip(r *http.Request) (*http.Response, error) {
	w := d.world
	ctx := r.Context()
	trace := httptrace.ContextClientTrace(ctx)
	defer func() {
		if r.Body != nil {
			r.Body.Close()
		}
	}()
	var plan semeltest.Plan
	if !w.calm.Load() {
		plan = w.plan.conn(int(d.dials.Add(1)))
	}
	if err := wait(ctx, plan.DialDelay+2*plan.Latency); err != nil {
		return nil, err
	}
	p := w.server.Load()
	switch {
	case plan.DialError != nil:
		return nil, dialError(plan.DialError)
	case p == nil:
		return nil, dialError(syscall.ECONNREFUSED)
	}
	if trace != nil && trace.GotConn != nil {
		trace.GotConn(httptrace.GotConnInfo{})
	}
	if ctx.Err() != nil {
		return nil, ctx.Err()
	}
	if plan.Up.End != semeltest.Open && plan.Up.After < 200 { // the request does not arrive
		return nil, broken(ctx, plan.Up.End)
	}
	var body []byte
	if r.Body != nil {
		body, _ = io.ReadAll(r.Body)
	}
	in := r.Clone(ctx)
	in.RequestURI, in.RemoteAddr = r.URL.RequestURI(), "client:1"
	in.Body = io.NopCloser(strings.NewReader(string(body)))
	if plan.Up.End != semeltest.Open { // half of it does
		in.Body = io.NopCloser(io.MultiReader(strings.NewReader(string(body[:len(body)/2])), failing{io.ErrUnexpectedEOF}))
	}
	return d.answer(ctx, p, in, plan)
}

// answer runs the handler, which goes on when the client has gone.
func (d *directTrip) answer(ctx context.Context, p *process, in *http.Request, plan semeltest.Plan) (*http.Response, error) {
	rec := httptest.NewRecorder()
	done := make(chan bool, 1)
	d.world.background.Go(func() {
		whole := false
		defer func() {
			if v := recover(); v != nil && v != http.ErrAbortHandler {
				panic(v)
			}
			done <- whole
		}()
		p.outer.ServeHTTP(rec, in)
		whole = true
	})
	var whole bool
	select {
	case whole = <-done:
	case <-p.died:
		return nil, broken(ctx, semeltest.RST)
	case <-ctx.Done():
		return nil, ctx.Err()
	}
	switch {
	case plan.Up.End != semeltest.Open:
		return nil, broken(ctx, plan.Up.End)
	case plan.Down.End != semeltest.Open && plan.Down.After < 200, !whole && rec.Body.Len() == 0:
		return nil, broken(ctx, plan.Down.End)
	}
	resp := rec.Result()
	resp.Request = in
	if n := rec.Body.Len(); !whole || plan.Down.End != semeltest.Open && n > 0 {
		if whole {
			n /= 2
		}
		resp.Body = io.NopCloser(io.MultiReader(io.LimitReader(rec.Body, int64(n)), failing{io.ErrUnexpectedEOF}))
	}
	return resp, nil
}

// broken is what the client notices of a connection that ends, perhaps after a long time.
func broken(ctx context.Context, end semeltest.End) error {
	switch end {
	case semeltest.Stall:
		<-ctx.Done()
		return ctx.Err()
	case semeltest.RST:
		return &net.OpError{Op: "read", Net: "sim", Err: syscall.ECONNRESET}
	}
	return io.EOF
}

func dialError(err error) error { return &net.OpError{Op: "dial", Net: "sim", Err: err} }

func wait(ctx context.Context, d time.Duration) error {
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

// A hidden base is one that semel cannot tell for net/http's.
type hidden struct{ http.RoundTripper }
