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
	limit  int64                         // of kept

	turn chan struct{} // held while rc is read; a channel, for nobody knows how long that takes

	mu     sync.Mutex
	kept   []byte      // what was read of rc, up to limit
	lost   bool        // more was read than was kept
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

// A bodyReader is one attempt's view of a captured body. Once another attempt has begun it can no longer touch it, apart
// from a read that was already under way, whose bytes are kept for the others.
type bodyReader struct {
	body     *body
	try      *try
	off      int           // in kept
	done     chan struct{} // closed with the reader
	detached bool          // guarded by body.mu, like closed
	closed   bool
}

func (r *bodyReader) Read(p []byte) (int, error) {
	if len(p) == 0 {
		return 0, nil
	}
	if n, err, ok := r.fromKept(p); ok {
		return n, err
	}
	b := r.body
	select {
	case b.turn <- struct{}{}:
	case <-r.done:
		return 0, errClosed
	}
	defer func() { <-b.turn }()
	if n, err, ok := r.fromKept(p); ok { // another attempt's read may have come in
		return n, err
	}
	n, err := b.rc.Read(p)
	r.try.flight.progress()
	return r.keep(p, n, err)
}

// fromKept reads what is there already. It reports false if rc has to be read.
func (r *bodyReader) fromKept(p []byte) (n int, err error, ok bool) {
	b := r.body
	b.mu.Lock()
	defer b.mu.Unlock()
	switch {
	case r.closed:
		return 0, errClosed, true
	case r.detached:
		return 0, errDetached, true
	case r.off < len(b.kept):
		n = copy(p, b.kept[r.off:])
		r.off += n
		return n, nil, true
	case b.err != nil:
		return 0, b.err, true
	case b.closed:
		return 0, errClosed, true
	}
	return 0, nil, false
}

// keep adds what was read of rc. Bytes that an attempt read which is over by now belong to the next one.
func (r *bodyReader) keep(p []byte, n int, err error) (int, error) {
	b := r.body
	b.mu.Lock()
	defer b.mu.Unlock()
	if n > 0 && int64(len(b.kept))+int64(n) > b.limit {
		b.lost = true
	}
	if !b.lost || r.detached {
		b.kept = append(b.kept, p[:n]...)
	}
	if err != nil {
		b.err = err
	}
	if r.detached {
		return 0, errDetached
	}
	if !b.lost {
		r.off += n
	}
	return n, err
}

// Close ends this attempt's reading.
func (r *bodyReader) Close() error {
	b := r.body
	b.mu.Lock()
	first := !r.closed
	r.closed = true
	last := b.final && b.reader == r
	b.mu.Unlock()
	if first {
		close(r.done)
	}
	if last {
		b.close()
	}
	return nil
}

// failed returns the error with which the caller's body ended, nil if it did not or ended well.
func (r *bodyReader) failed() error {
	b := r.body
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.err == io.EOF || errors.Is(b.err, errClosed) {
		return nil
	}
	return b.err
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
