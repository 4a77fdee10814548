package semel

import (
	"context"
	"errors"
	"io"
)

// A bodyReader is one attempt's view of a captured body. Once the attempt is over it can no longer touch it. A read that is
// under way then goes on without it, and its bytes are kept for the next attempt.
type bodyReader struct {
	body     *body
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
func (b *body) read(size int) {
	b.mu.Lock()
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
