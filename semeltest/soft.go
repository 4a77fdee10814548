package semeltest

import (
	"context"
	"io"
	"net"
	"net/http"
	"sync"
	"syscall"
)

// Over HTTP/2 a connection carries many replies, and over TLS its bytes cannot be told apart. There cuts are made above the
// connection, at the byte where HTTP/1.1 would have it.

// byteCount counts what is written to it.
type byteCount int64

func (n *byteCount) Write(p []byte) (int, error) {
	*n += byteCount(len(p))
	return len(p), nil
}

// ended is what a reader or a caller finds at a cut. A stall ends with the context, or when stop is closed.
func ended(ctx context.Context, end End, op string, stop <-chan struct{}) error {
	switch end {
	case FIN:
		return io.ErrUnexpectedEOF
	case Stall:
		select {
		case <-ctx.Done():
			return context.Cause(ctx)
		case <-stop:
			return net.ErrClosed
		}
	}
	return &net.OpError{Op: op, Net: "tcp", Err: syscall.ECONNRESET}
}

// headSize is about what the head of a request takes.
func headSize(req *http.Request) int64 {
	var head byteCount
	_ = req.Header.Write(&head)
	return int64(head) + int64(len(req.Method)+len(req.URL.RequestURI())+len(" HTTP/1.1\r\n")+len("Host: \r\n")+len(req.URL.Host)+len("User-Agent: Go-http-client/1.1\r\nContent-Length: 100\r\n\r\n"))
}

// cutRequest lets only the first bytes of a request out, or returns an error if that is less than its head.
func cutRequest(req *http.Request, c Cut) error {
	left := c.After - headSize(req)
	if left < 0 || req.Body == nil || req.Body == http.NoBody {
		closeBody(req)
		return ended(req.Context(), c.End, "write", nil)
	}
	if req.ContentLength < 0 || req.ContentLength > left {
		req.Body, req.GetBody = newCutBody(req.Context(), req.Body, left, c.End), nil
	}
	return nil
}

// cutReply lets only the first bytes of a reply through.
func cutReply(ctx context.Context, resp *http.Response, c Cut) (*http.Response, error) {
	var head byteCount
	_ = resp.Header.Write(&head)
	head += byteCount(len("HTTP/1.1 \r\n\r\n") + len(resp.Status))
	left := c.After - int64(head)
	if left < 0 {
		_, _ = io.Copy(io.Discard, resp.Body)
		resp.Body.Close()
		return nil, ended(ctx, c.End, "read", nil)
	}
	if resp.ContentLength < 0 || resp.ContentLength > left {
		resp.Body = newCutBody(ctx, resp.Body, left, c.End)
	}
	return resp, nil
}

// A cutBody ends after so many bytes.
type cutBody struct {
	io.ReadCloser
	ctx    context.Context
	left   int64
	end    End
	once   sync.Once
	closed chan struct{}
}

func newCutBody(ctx context.Context, b io.ReadCloser, left int64, end End) *cutBody {
	return &cutBody{ReadCloser: b, ctx: ctx, left: left, end: end, closed: make(chan struct{})}
}

func (b *cutBody) Read(p []byte) (int, error) {
	if b.left == 0 {
		return 0, ended(b.ctx, b.end, "read", b.closed)
	}
	n, err := b.ReadCloser.Read(p[:min(int64(len(p)), b.left)])
	b.left -= int64(n)
	return n, err
}

func (b *cutBody) Close() error {
	b.once.Do(func() { close(b.closed) })
	return b.ReadCloser.Close()
}
