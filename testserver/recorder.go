package testserver

import (
	"bufio"
	"errors"
	"net"
	"net/http"
	"strconv"
	"strings"
	"time"
)

// errHeldBack means that a transactional reply has to wait for its commit.
var errHeldBack = errors.New("testserver: a transactional reply is held back until the commit, so it must fit into MaxReply and cannot be streamed")

// A recorder holds the handler's reply back until it is stored. A reply that the handler flushes, or that outgrows the
// guard's limit, leaves at once, and only a tombstone will be stored.
type recorder struct {
	a      *attempt
	run    *run        // nil in a transaction, where nothing leaves
	outer  http.Header // what middleware around the guard has set
	header http.Header // what the handler sees
	sent   http.Header // header as it was at WriteHeader

	status   int
	declared int64 // Content-Length as the handler promised it, or -1
	n        int64 // bytes written
	body     []byte

	wrote      bool // the final status
	left       bool // to the client; body is empty from then on
	hijacked   bool
	refused    bool // transactional: the handler wanted something to leave
	incomplete bool // what the handler wrote is not what it promised
}

func newRecorder(a *attempt, r *run) *recorder {
	rec := &recorder{a: a, run: r, outer: a.w.Header().Clone()}
	rec.reset()
	return rec
}

// reset forgets what the handler wrote, which must not have left.
func (c *recorder) reset() {
	c.header = c.outer.Clone()
	if c.header == nil {
		c.header = make(http.Header)
	}
	c.sent, c.status, c.declared, c.n, c.body, c.wrote = nil, 0, -1, 0, nil, false
}

func (c *recorder) Header() http.Header { return c.header }

// WriteHeader keeps the final status. Informational replies are dropped.
func (c *recorder) WriteHeader(status int) {
	switch {
	case status < 100 || status > 999:
		panic("testserver: invalid status " + strconv.Itoa(status)) // as net/http does
	case c.wrote || c.hijacked || status < 200 && status != http.StatusSwitchingProtocols:
		return
	}
	c.wrote, c.status, c.sent, c.declared = true, status, c.header.Clone(), -1
	if n, err := strconv.ParseInt(c.sent.Get("Content-Length"), 10, 64); err == nil && n >= 0 {
		c.declared = n
	}
}

func (c *recorder) Write(p []byte) (int, error) {
	if c.hijacked {
		return 0, http.ErrHijacked
	}
	c.WriteHeader(http.StatusOK)
	switch {
	case !hasBody(c.status):
		return 0, http.ErrBodyNotAllowed
	case c.declared >= 0 && c.n+int64(len(p)) > c.declared:
		return 0, http.ErrContentLength
	}
	if !c.left && c.n+int64(len(p)) > orDefault(c.a.g.MaxReply, 1<<20) {
		if err := c.leave(); err != nil {
			return 0, err
		}
	}
	c.n += int64(len(p))
	if c.left {
		return c.a.w.Write(p)
	}
	c.body = append(c.body, p...)
	return len(p), nil
}

// leave lets the reply out before it is stored. From then on the operation must not be run again by mistake, and what a
// lost owner believes must not get out.
func (c *recorder) leave() error {
	if c.left {
		return nil
	}
	if c.run == nil {
		c.refused = true
		return errHeldBack
	}
	if !transient(c.status) || c.hijacked {
		if err := c.run.mark(c.a.r.Context()); err != nil {
			c.incomplete = true
			return err
		}
	}
	c.left = true
	if c.hijacked {
		return nil
	}
	h := c.a.w.Header()
	setHeader(h, c.outer, c.sent)
	if c.declared >= 0 {
		h.Set("Content-Length", strconv.FormatInt(c.declared, 10))
	}
	c.a.w.WriteHeader(c.status)
	_, err := c.a.w.Write(c.body)
	c.body = nil
	return err
}

// Flush lets the reply out, see FlushError.
func (c *recorder) Flush() { _ = c.FlushError() }

// FlushError lets the reply out; in a transaction it is refused, and the operation with it.
func (c *recorder) FlushError() error {
	if c.hijacked {
		return http.ErrHijacked
	}
	c.WriteHeader(http.StatusOK)
	if err := c.leave(); err != nil {
		return err
	}
	return http.NewResponseController(c.a.w).Flush()
}

// Hijack hands the connection over. What is sent over it is not kept.
func (c *recorder) Hijack() (net.Conn, *bufio.ReadWriter, error) {
	if c.run == nil {
		c.refused = true
		return nil, nil, errHeldBack
	}
	if err := c.run.mark(c.a.r.Context()); err != nil {
		return nil, nil, err
	}
	conn, buf, err := http.NewResponseController(c.a.w).Hijack()
	if err == nil {
		c.hijacked, c.left = true, true
	}
	return conn, buf, err
}

func (c *recorder) SetReadDeadline(t time.Time) error {
	return http.NewResponseController(c.a.w).SetReadDeadline(t)
}

func (c *recorder) SetWriteDeadline(t time.Time) error {
	return http.NewResponseController(c.a.w).SetWriteDeadline(t)
}

func (c *recorder) EnableFullDuplex() error {
	return http.NewResponseController(c.a.w).EnableFullDuplex()
}

// finish ends the recording. The answer has no body if it is not kept.
func (c *recorder) finish() (answer *Answer, kept bool) {
	switch {
	case c.hijacked && !c.wrote:
		c.status = http.StatusSwitchingProtocols
	case !c.hijacked:
		c.WriteHeader(http.StatusOK)
	}
	if c.declared > c.n && hasBody(c.status) && c.a.r.Method != http.MethodHead {
		c.incomplete = true
	}
	if _, has := c.sent["Content-Type"]; !has && len(c.body) > 0 && c.sent.Get("Content-Encoding") == "" {
		c.sent.Set("Content-Type", http.DetectContentType(c.body)) // as net/http would
	}
	answer = &Answer{Status: c.status, Header: storable(c.outer, c.sent)}
	if c.left || c.incomplete || c.trailers() {
		return answer, false
	}
	answer.Body = c.body
	return answer, true
}

// trailers reports whether the reply has trailers. They are not kept, and need a reply without a Content-Length.
func (c *recorder) trailers() bool {
	for name := range c.header {
		if strings.HasPrefix(name, http.TrailerPrefix) {
			return true
		}
	}
	return c.sent.Get("Trailer") != ""
}

// deliver sends the reply, or the rest of it, now that it is stored.
func (c *recorder) deliver() {
	switch {
	case c.hijacked:
	case c.left:
		if c.a.visit(AfterSettle) != nil {
			c.abort()
		}
		c.sendTrailers()
	case c.trailers():
		if c.a.pass(AfterSettle) {
			setHeader(c.a.w.Header(), c.outer, c.sent)
			c.a.w.WriteHeader(c.status)
			_, _ = c.a.w.Write(c.body)
			_ = http.NewResponseController(c.a.w).Flush()
			c.sendTrailers()
		}
	default:
		c.a.write(c.status, c.body, func(h http.Header) { setHeader(h, c.outer, c.sent) })
	}
}

func (c *recorder) sendTrailers() {
	declared := strings.Split(strings.Join(c.sent.Values("Trailer"), ","), ",")
	for name, values := range c.header {
		if strings.HasPrefix(name, http.TrailerPrefix) {
			c.a.w.Header()[name] = values
		}
	}
	for _, name := range declared {
		name = http.CanonicalHeaderKey(strings.TrimSpace(name))
		if values := c.header[name]; name != "" && len(values) > 0 {
			c.a.w.Header()[name] = values
		}
	}
}

// abort cuts the connection: what was sent so far is not the whole reply.
func (c *recorder) abort() { panic(http.ErrAbortHandler) }

func hasBody(status int) bool {
	return status >= 200 && status != http.StatusNoContent && status != http.StatusNotModified
}
