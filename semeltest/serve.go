package semeltest

import (
	"bufio"
	"bytes"
	"context"
	"io"
	"maps"
	"net"
	"net/http"
	"slices"

	"github.com/semel-go/semel/testserver"
)

type tryKey struct{}

// tryFrom returns the attempt that a request at the server belongs to, or nil.
func tryFrom(ctx context.Context) *try {
	y, _ := ctx.Value(tryKey{}).(*try)
	return y
}

// handle is the world's server: what is in front of the handler.
func (w *World) handle(rw http.ResponseWriter, r *http.Request) {
	if !w.enter() {
		panic(http.ErrAbortHandler)
	}
	defer w.running.Done()
	y := w.find(r.Header.Get(attemptHeader))
	r.Header.Del(attemptHeader)
	w.record(y, onArrival, 0, r.Method+" "+r.URL.RequestURI())
	seen := &observed{ResponseWriter: rw}
	finished := false
	defer func() {
		switch {
		case !finished:
			w.record(y, onCut, 0, "the handler broke off")
		case !seen.hijacked:
			w.record(y, onAnswer, seen.status(), "")
		}
	}()
	if y == nil {
		w.current().ServeHTTP(seen, r)
		finished = true
		return
	}
	first := y.arrivals.Add(1) == 1
	if t := y.trouble; first && t.status != 0 {
		if !t.early {
			_, _ = io.Copy(io.Discard, r.Body)
		}
		for name, values := range t.header {
			rw.Header()[name] = values
		}
		seen.WriteHeader(t.status)
		_, _ = io.WriteString(seen, t.body)
		finished = true
		return
	}
	r = r.WithContext(context.WithValue(r.Context(), tryKey{}, y))
	if y.trouble.goAway && w.HTTP2 {
		rw.Header().Set("Connection", "close") // net/http makes it a GOAWAY
	}
	if first {
		_ = pause(r.Context(), y.trouble.doze)
	}
	if first && y.trouble.garble != nil {
		w.garble(rw, r, y.trouble.garble)
		seen.hijacked, finished = true, true
		return
	}
	w.current().ServeHTTP(seen, r)
	finished = true
}

// enter counts a handler, unless the world is closed.
func (w *World) enter() bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	if isClosed(w.closed) {
		return false
	}
	w.running.Add(1)
	return true
}

// garble lets the handler work, and sends other bytes than its reply. It needs HTTP/1.1.
func (w *World) garble(rw http.ResponseWriter, r *http.Request, change func([]byte) []byte) {
	kept := &copying{ResponseWriter: &nobody{header: make(http.Header)}}
	w.current().ServeHTTP(kept, r)
	var reply bytes.Buffer
	_ = (&http.Response{
		ProtoMajor: 1, ProtoMinor: 1, StatusCode: max(kept.code, http.StatusOK), Header: kept.Header(),
		ContentLength: int64(kept.body.Len()), Body: io.NopCloser(bytes.NewReader(kept.body.Bytes())),
	}).Write(&reply) // into memory
	c, _, err := http.NewResponseController(rw).Hijack()
	if err != nil {
		panic(http.ErrAbortHandler)
	}
	w.record(tryFrom(r.Context()), onAnswer, kept.code, "garbled")
	_, _ = c.Write(change(reply.Bytes()))
	c.Close()
}

// restart cuts all connections and goes on with another handler, unless that is nil.
func (w *World) restart(h http.Handler) {
	w.mu.Lock()
	if h != nil {
		w.Handler = h
	}
	open := slices.Collect(maps.Keys(w.conns))
	w.mu.Unlock()
	for _, c := range open {
		c.Close()
	}
	w.transport.CloseIdleConnections()
}

func (w *World) current() http.Handler {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.Handler
}

// Visit is the [testserver.Fault] of a guard in this world: it records the points and lets [At] act at them.
func (w *World) Visit(ctx context.Context, p testserver.Point, v testserver.Visit) error {
	y := tryFrom(ctx)
	w.record(y, onPoint, 0, pointName(p))
	if y == nil || y.arrivals.Load() > 1 {
		return nil
	}
	for _, do := range y.trouble.actions[p] {
		if err := do(ctx, v); err != nil {
			return err
		}
	}
	return nil
}

// Effect records that the request's operation takes effect now. A handler calls it, so that its effects are in the history.
func (w *World) Effect(r *http.Request) { w.record(tryFrom(r.Context()), onEffect, 0, "") }

func pointName(p testserver.Point) string {
	switch p {
	case testserver.BeforeClaim:
		return "BeforeClaim"
	case testserver.AfterClaim:
		return "AfterClaim"
	case testserver.AfterEffect:
		return "AfterEffect"
	case testserver.AfterSettle:
		return "AfterSettle"
	}
	return "InReply"
}

// An observed writer remembers the status.
type observed struct {
	http.ResponseWriter
	code     int
	hijacked bool
}

func (o *observed) status() int {
	if o.code == 0 {
		return http.StatusOK
	}
	return o.code
}

func (o *observed) WriteHeader(code int) {
	if o.code == 0 && code >= 200 {
		o.code = code
	}
	o.ResponseWriter.WriteHeader(code)
}

func (o *observed) Flush() { _ = o.FlushError() }

func (o *observed) FlushError() error { return http.NewResponseController(o.ResponseWriter).Flush() }

func (o *observed) Hijack() (net.Conn, *bufio.ReadWriter, error) {
	c, b, err := http.NewResponseController(o.ResponseWriter).Hijack()
	o.hijacked = err == nil
	return c, b, err
}

func (o *observed) Unwrap() http.ResponseWriter { return o.ResponseWriter }

// nobody reads no reply.
type nobody struct{ header http.Header }

func (n *nobody) Header() http.Header         { return n.header }
func (n *nobody) Write(p []byte) (int, error) { return len(p), nil }
func (n *nobody) WriteHeader(int)             {}
