package semel

import (
	"errors"
	"fmt"
	"io"
	"net/http"
	"sync"
)

// A body gives each attempt the request's body from its first byte.
//
// With GetBody each attempt has a reader of its own. Without, the caller's reader is captured while it is sent and never
// read ahead, since it may be a pipe whose writer waits for the reply.
type body struct {
	get    func() (io.ReadCloser, error) // nil: captured
	length int64                         // as the request says; -1 or 0 if it does not
	rc     io.ReadCloser                 // the caller's, closed once
	limit  int64                         // of what is kept

	turn chan struct{} // held while rc is read; a channel, for nobody knows how long that takes

	mu     sync.Mutex
	kept   pieces      // what was read of rc, up to limit
	lost   bool        // more was read than was kept
	spill  []byte      // what was read beyond the limit and not yet handed out
	err    error       // what rc ended with
	reader *bodyReader // of the attempt under way
	final  bool        // there is no further attempt: rc is closed with the reader
	closed bool
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
		b.turn = make(chan struct{}, 1)
		if b.limit = or(t.MaxBody, 1<<20); b.limit < 0 {
			b.limit = 0
		}
	}
}

// open returns the attempt's reader; the base closes it.
func (b *body) open(y *try) (io.ReadCloser, error) {
	if b.get == nil {
		return b.capture(y)
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

func (b *body) capture(y *try) (io.ReadCloser, error) {
	r := &bodyReader{body: b, try: y, done: make(chan struct{})}
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.reader != nil {
		if b.lost {
			return nil, ErrBody
		}
		b.reader.detached = true
	}
	b.reader, y.flight.body = r, r
	return r, nil
}

// repeatable reports whether a further attempt can send the same bytes.
func (b *body) repeatable() bool {
	if b == nil || b.get != nil {
		return true
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	return !b.lost && (b.err == nil || b.err == io.EOF)
}

// finish says that there is no further attempt. The caller's body is closed now or, while a reply is streaming and the
// request may be too, when the base closes its reader.
func (b *body) finish(streaming bool) {
	if b == nil {
		return
	}
	b.mu.Lock()
	b.final = true
	wait := streaming && b.reader != nil && !b.reader.closed
	b.mu.Unlock()
	if !wait {
		b.close()
	}
}

func (b *body) close() {
	b.mu.Lock()
	first := !b.closed
	b.closed = true
	b.mu.Unlock()
	if first {
		b.rc.Close()
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
