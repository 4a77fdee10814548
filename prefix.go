package semel

import (
	"bytes"
	"context"
	"errors"
	"io"
	"slices"
	"sync"
	"time"
)

// errLimit ends the reading ahead of a body that is longer than allowed.
var errLimit = errors.New("semel: more than may be read ahead")

// A prefix reads a body ahead, in a goroutine that ends with the limit, the body or its Close, so that whoever waits for it
// can stop waiting. Read then gives the rest, from where the reading ahead has got to.
type prefix struct {
	body  io.ReadCloser
	limit int64
	done  chan struct{} // closed when nothing more is read ahead
	more  func()        // told of each read

	mu  sync.Mutex
	buf bytes.Buffer // what was read and not yet handed out
	err error
	cut bool // nobody waits any more: the goroutine stops after the read under way
}

func startPrefix(body io.ReadCloser, limit int64, more func()) *prefix {
	p := &prefix{body: body, limit: limit, done: make(chan struct{}), more: more}
	go p.ahead()
	return p
}

func (p *prefix) ahead() {
	defer close(p.done)
	chunk := make([]byte, 4<<10)
	for {
		n, err := p.body.Read(chunk)
		p.more()
		p.mu.Lock()
		p.buf.Write(chunk[:n])
		if err == nil && int64(p.buf.Len()) > p.limit {
			err = errLimit
		}
		p.err = err
		stop := err != nil || p.cut
		p.mu.Unlock()
		if stop {
			return
		}
	}
}

// wait returns true when the reading ahead has ended, and false when it was stopped by impatience or the context.
func (p *prefix) wait(ctx context.Context, patience time.Duration) bool {
	t := time.NewTimer(patience)
	defer t.Stop()
	select {
	case <-p.done:
		return true
	case <-t.C:
	case <-ctx.Done():
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.cut = true
	return false
}

// seen takes what was read.
func (p *prefix) seen() []byte {
	p.mu.Lock()
	defer p.mu.Unlock()
	b := slices.Clone(p.buf.Bytes())
	p.buf.Reset()
	return b
}

// ending is what the body ended with, or errLimit.
func (p *prefix) ending() error {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.err
}

// Read gives what comes after seen.
func (p *prefix) Read(b []byte) (int, error) {
	if len(b) == 0 {
		return 0, nil
	}
	<-p.done
	p.mu.Lock()
	if p.buf.Len() > 0 {
		defer p.mu.Unlock()
		return p.buf.Read(b)
	}
	err := p.err
	p.mu.Unlock()
	if err != nil && err != errLimit {
		return 0, err
	}
	return p.body.Read(b)
}

// Close closes the body, which ends a read under way.
func (p *prefix) Close() error { return p.body.Close() }
