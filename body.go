package semel

import (
	"errors"
	"fmt"
	"io"
	"net/http"
)

// A body gives each attempt the request's body from its first byte.
//
// With GetBody each attempt has a reader of its own, the first too. Without, the caller's reader is captured while it is sent
// and never read ahead, since it may be a pipe whose writer waits for the reply.
type body struct {
	get      func() (io.ReadCloser, error) // nil: captured
	length   int64                         // as the request says; -1 or 0 if it does not
	rc       io.ReadCloser                 // the caller's, closed once
	captured *captured                     // nil with get
}

// smallBody is how much may be sent without a look at its progress. Such a body stays the reader that net/http knows and
// writes together with the head.
const smallBody = 64 << 10

var (
	errDetached = errors.New("semel: the attempt that this body belongs to is over")
	errClosed   = errors.New("semel: the body is closed")
)

func (b *body) begin(t *Transport, req *http.Request) {
	b.get, b.length, b.rc = req.GetBody, req.ContentLength, req.Body
	if b.get == nil {
		b.captured = newCaptured(b.rc, b.length, max(0, or(t.MaxBody, 1<<20)))
	}
}

// open returns the attempt's reader; the base closes it.
func (b *body) open(y *try) (io.ReadCloser, error) {
	if b.get == nil {
		return b.captured.open(y)
	}
	rc, err := openBody(b.get)
	if err != nil {
		return nil, err
	}
	if y.flight.timeout > 0 && (b.length <= 0 || b.length > smallBody) {
		return &progressReader{rc, y}, nil
	}
	return rc, nil
}

// openBody calls a GetBody, which may be wrong.
func openBody(get func() (io.ReadCloser, error)) (io.ReadCloser, error) {
	rc, err := get()
	switch {
	case err != nil:
		return nil, fmt.Errorf("%w: GetBody: %w", ErrBody, err)
	case rc == nil:
		return nil, fmt.Errorf("%w: GetBody returned neither a body nor an error", ErrBody)
	}
	return rc, nil
}

// repeatable reports whether a further attempt can send the same bytes.
func (b *body) repeatable() bool { return b == nil || b.get != nil || b.captured.repeatable() }

// finish says that there is no further attempt. The caller's body is closed now or, while a reply is streaming and the
// request may be too, when the base closes its reader.
func (b *body) finish(streaming bool) {
	switch {
	case b == nil:
	case b.get != nil:
		b.rc.Close()
	default:
		b.captured.finish(streaming)
	}
}

// A progressReader tells the attempt that its body is being sent.
type progressReader struct {
	io.ReadCloser
	try *try
}

func (r *progressReader) Read(p []byte) (int, error) {
	n, err := r.ReadCloser.Read(p)
	r.try.flight.progress()
	return n, err
}
