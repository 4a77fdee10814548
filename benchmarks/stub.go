package benchmarks

import (
	"errors"
	"io"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
)

const stubBase = "http://stub.invalid"

const okBody = `{"ok":true}`

// The replies share their headers: no peer writes to them, and go test -race would tell.
var (
	okHeader   = http.Header{"Content-Type": {"application/json"}}
	failHeader = http.Header{
		"Content-Type":   {"text/plain"},
		"Retry-After-Ms": {"0"}, // openai-go has no other knob for its base wait
	}
)

// A Stub answers from memory. It reads request bodies as a socket write would: through a fixed buffer, to the end.
type Stub struct {
	Plan func(n uint64) (status int, body string) // what attempt n, from 1, gets

	attempts atomic.Uint64
	bodyLen  atomic.Int64 // of the latest attempt
}

func answered(body string) func(uint64) (int, string) {
	return func(uint64) (int, string) { return 200, body }
}

// everyOther refuses each odd attempt: one retry for each operation.
func everyOther(n uint64) (int, string) {
	if n%2 == 1 {
		return 503, "unavailable"
	}
	return 200, okBody
}

// RoundTrip implements http.RoundTripper.
func (s *Stub) RoundTrip(req *http.Request) (*http.Response, error) {
	n := s.attempts.Add(1)
	size, err := drain(req.Body)
	if err != nil {
		return nil, err
	}
	s.bodyLen.Store(size)
	status, body := s.Plan(n)
	r := &stubReply{rest: body}
	r.resp = http.Response{
		Status: "200 OK", StatusCode: status,
		Proto: "HTTP/1.1", ProtoMajor: 1, ProtoMinor: 1,
		Header: okHeader, Body: r, ContentLength: int64(len(body)), Request: req,
	}
	if status != 200 {
		r.resp.Status, r.resp.Header = "503 Service Unavailable", failHeader
	}
	return &r.resp, nil
}

type stubReply struct {
	resp http.Response
	rest string
}

func (r *stubReply) Read(p []byte) (int, error) {
	if r.rest == "" {
		return 0, io.EOF
	}
	n := copy(p, r.rest)
	r.rest = r.rest[n:]
	return n, nil
}

func (r *stubReply) Close() error { return nil }

var buffers = sync.Pool{New: func() any { b := make([]byte, 32<<10); return &b }}

func drain(body io.ReadCloser) (size int64, err error) {
	if body == nil || body == http.NoBody {
		return 0, nil
	}
	buf := buffers.Get().(*[]byte)
	defer buffers.Put(buf)
	for err == nil {
		var n int
		n, err = body.Read(*buf)
		size += int64(n)
	}
	if !errors.Is(err, io.EOF) {
		return size, err
	}
	return size, body.Close()
}

var reply64K = `{"ok":true,"pad":"` + strings.Repeat("p", 64<<10) + `"}`
