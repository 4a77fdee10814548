package semel

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"net/http"
)

// memory is a reply's body that has been read.
func memory(b []byte) io.ReadCloser { return &memoryBody{all: b} }

type memoryBody struct {
	all []byte
	off int // of what comes next
}

func (m *memoryBody) Read(b []byte) (int, error) {
	if m.off >= len(m.all) && len(b) > 0 {
		return 0, io.EOF
	}
	n := copy(b, m.all[m.off:])
	m.off += n
	return n, nil
}

// WriteTo spares io.Copy a buffer.
func (m *memoryBody) WriteTo(w io.Writer) (int64, error) {
	rest := m.all[m.off:]
	n, err := w.Write(rest)
	m.off += n
	if err == nil && n < len(rest) {
		err = io.ErrShortWrite
	}
	return int64(n), err
}

func (*memoryBody) Close() error { return nil }

// whole takes what the reply still brings into memory, within the limits of a reply that is read in an attempt. The end of
// one that does not fit says so.
func whole(resp *http.Response) {
	switch resp.Body.(type) {
	case nil:
		resp.Body = http.NoBody
		return
	case *memoryBody, *partBody:
		return
	}
	if resp.Body == http.NoBody {
		return
	}
	p := startPrefix(resp.Body, smallReply, func() {})
	ended := p.wait(context.Background(), openWait)
	buf, err := p.seen(), p.ending()
	p.Close()
	switch {
	case ended && err == io.EOF:
		resp.Body = memory(buf)
	case !ended || err == errLimit:
		resp.Body = &partBody{*bytes.NewReader(buf), fmt.Errorf("semel: the rest of the reply is not in memory: %w", io.ErrUnexpectedEOF)}
	default:
		resp.Body = &partBody{*bytes.NewReader(buf), err}
	}
}

// A partBody is the beginning of a reply, and why there is no more.
type partBody struct {
	bytes.Reader
	end error
}

func (p *partBody) Read(b []byte) (int, error) {
	n, err := p.Reader.Read(b)
	if err == io.EOF {
		err = p.end
	}
	return n, err
}

// WriteTo must not hide the end either.
func (p *partBody) WriteTo(w io.Writer) (int64, error) {
	n, err := p.Reader.WriteTo(w)
	if err == nil {
		err = p.end
	}
	return n, err
}

func (*partBody) Close() error { return nil }
