package semel

import (
	"context"
	"errors"
	"io"
	"sync"
)

// A captured body is the caller's reader and what was read of it.
type captured struct {
	rc     io.ReadCloser // closed once
	length int64         // as the request says; -1 or 0 if it does not
	limit  int64         // of what is kept

	turn chan struct{} // held while rc is read; a channel, for nobody knows how long that takes

	mu     sync.Mutex
	kept   pieces      // what was read of rc, up to limit
	lost   bool        // more was read than was kept
	spill  []byte      // what was read beyond the limit and not yet handed out
	err    error       // what rc ended with
	reader *bodyReader // of the attempt under way
	final  bool        // there is no further attempt: rc is closed with the reader
	closed bool

	first bodyReader // in the same allocation
}

func newCaptured(rc io.ReadCloser, length, limit int64) *captured {
	return &captured{rc: rc, length: length, limit: limit, turn: make(chan struct{}, 1)}
}

// open returns the attempt's reader, and takes the body away from the one before.
func (b *captured) open(y *try) (io.ReadCloser, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	r := &b.first
	if b.reader != nil {
		if b.lost {
			return nil, ErrBody
		}
		b.reader.detached = true
		r = new(bodyReader)
	}
	r.body, r.try, r.done = b, y, make(chan struct{})
	b.reader, y.flight.body = r, r
	return r, nil
}

func (b *captured) repeatable() bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	return !b.lost && (b.err == nil || b.err == io.EOF)
}

// finish closes the caller's body now or with its reader.
func (b *captured) finish(streaming bool) {
	b.mu.Lock()
	b.final = true
	wait := streaming && b.reader != nil && !b.reader.closed
	b.mu.Unlock()
	if !wait {
		b.close()
	}
}

func (b *captured) close() {
	b.mu.Lock()
	first := !b.closed
	b.closed = true
	b.mu.Unlock()
	if first {
		b.rc.Close()
	}
}

// A bodyReader is one attempt's view of a captured body. Once the attempt is over it can no longer touch it. A read that is
// under way then goes on without it, and its bytes are kept for the next attempt.
type bodyReader struct {
	body     *captured
	try      *try
	at       place         // in what is kept
	done     chan struct{} // closed with the reader
	detached bool          // guarded by body.mu, like closed
	closed   bool
}

// Read waits for the source no longer than the attempt lasts: net/http waits for the body's reader before it gives up a
// request, and the source may never bring anything.
func (r *bodyReader) Read(p []byte) (int, error) {
	if len(p) == 0 {
		return 0, nil
	}
	for b := r.body; ; {
		if n, err, ok := r.take(p); ok {
			return n, err
		}
		select {
		case b.turn <- struct{}{}:
		case <-r.done:
			return 0, errClosed
		case <-r.try.Done():
			return 0, context.Cause(r.try)
		}
		if n, err, ok := r.take(p); ok { // what a read brought that was under way
			<-b.turn
			return n, err
		}
		read := make(chan struct{})
		go func() {
			b.read(len(p))
			r.try.flight.progress()
			<-b.turn
			close(read)
		}()
		select {
		case <-read:
		case <-r.done:
			return 0, errClosed
		case <-r.try.Done():
			return 0, context.Cause(r.try)
		}
	}
}

// read brings up to size further bytes of the source. It is called in turn.
func (b *captured) read(size int) {
	b.mu.Lock()
	if b.closed { // since it was looked at
		b.mu.Unlock()
		return
	}
	room := b.kept.room(size, b.length)
	b.mu.Unlock()
	n, err := b.rc.Read(room)
	b.mu.Lock()
	defer b.mu.Unlock()
	if err != nil {
		b.err = err
	}
	if n > 0 && b.kept.size+int64(n) > b.limit {
		b.lost = true
	}
	if b.lost {
		b.spill = room[:n]
	} else {
		b.kept.grow(n)
	}
}

// take hands out what is there already. It reports false if the source has to be read.
func (r *bodyReader) take(p []byte) (n int, err error, ok bool) {
	b := r.body
	b.mu.Lock()
	defer b.mu.Unlock()
	switch {
	case r.closed:
		return 0, errClosed, true
	case r.detached:
		return 0, errDetached, true
	}
	if n = b.kept.read(&r.at, p); n > 0 {
		return n, nil, true
	}
	switch {
	case len(b.spill) > 0:
		n = copy(p, b.spill)
		b.spill = b.spill[n:]
		return n, nil, true
	case b.err != nil:
		return 0, b.err, true
	case b.closed:
		return 0, errClosed, true
	}
	return 0, nil, false
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
