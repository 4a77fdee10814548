package semel

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"time"
)

const (
	smallReply   = 1 << 20
	openWait     = 250 * time.Millisecond // how long a reply of unknown length is read before it is handed over
	discardBytes = 16 << 10
	discardWait  = 50 * time.Millisecond
	prefixBytes  = 16 << 10 // of a body, for classifiers
)

// receive takes the reply into memory where its operation can be asked again, and otherwise hands it over as it comes.
func (y *try) receive() {
	resp := y.resp
	limit := y.readLimit()
	switch {
	case resp.Body == http.NoBody:
	case resp.StatusCode == http.StatusSwitchingProtocols:
		y.streaming = true // the body is also a writer; the attempt's context lasts as long as the caller's
		y.flight.stop()
		return
	case y.req.Method == http.MethodHead:
		y.pass(nil, resp.Body)
		return
	case limit > 0 && resp.ContentLength >= 0 && resp.ContentLength <= limit:
		y.readKnown(resp.ContentLength)
		return
	case limit > 0 && resp.ContentLength < 0:
		y.readOpen(limit, openWait)
		return
	case resp.StatusCode >= 400 && y.call.keyed && resp.ContentLength >= 0 && resp.ContentLength <= prefixBytes:
		y.readKnown(resp.ContentLength)
		return
	case resp.StatusCode >= 400 && (y.call.keyed || y.call.t.Dialect.Classify != nil):
		y.readOpen(prefixBytes, openWait)
		return
	default:
		y.pass(nil, resp.Body)
		return
	}
	y.flight.land()
}

// readLimit is how much of the reply may be read within the attempt; 0 for none.
func (y *try) readLimit() int64 {
	c, limit := y.call, y.call.t.MaxReply
	switch {
	case limit < 0, limit == 0 && !c.keyed, !c.keyed && !idempotent(methodOf(c.req)):
		return 0
	case streams(y.resp):
		return 0
	}
	return or(limit, smallReply)
}

// streams reports whether the reply is one to be read while it arrives.
func streams(resp *http.Response) bool {
	t := mediaType(resp)
	for _, s := range []string{"text/event-stream", "application/x-ndjson", "application/jsonl", "application/grpc", "multipart/x-mixed-replace"} {
		if len(t) >= len(s) && strings.EqualFold(t[:len(s)], s) {
			return true
		}
	}
	return false
}

// mediaType is the reply's Content-Type. Replies have their headers under canonical names.
func mediaType(resp *http.Response) string {
	if v := resp.Header["Content-Type"]; len(v) > 0 {
		return v[0]
	}
	return ""
}

// lose turns a reply that did not arrive whole into a failure of the attempt. Its head stays, for what that proves.
func (y *try) lose(err error) {
	if err = y.flight.because(err); y.flight.late() && !errors.Is(err, errAttemptTimeout) {
		err = join(errAttemptTimeout, err)
	}
	y.resp.Body.Close()
	y.resp.Body = http.NoBody
	y.err, y.fault = err, cut
}

// readKnown reads a reply that says how long it is, to its end, so that the connection can be used again.
func (y *try) readKnown(length int64) {
	buf := make([]byte, length+1)
	n, err := 0, error(nil)
	for n < len(buf) && err == nil {
		var m int
		m, err = y.resp.Body.Read(buf[n:])
		n += m
		if n < len(buf)-1 {
			y.flight.progress()
		}
	}
	switch {
	case int64(n) > length:
		y.pass(buf, y.resp.Body)
	case int64(n) < length:
		if err == io.EOF {
			err = io.ErrUnexpectedEOF
		}
		y.lose(err)
	default:
		y.resp.Body.Close()
		y.keep(buf[:n])
	}
}

// keep gives the reply a body that has been read.
func (y *try) keep(b []byte) {
	if y.flight == nil {
		y.resp.Body = memory(b)
		return
	}
	y.flight.reply.memory.all = b
	y.resp.Body = &y.flight.reply.memory
	y.flight.land()
}

// readOpen reads a reply of unknown length while data keeps coming, up to limit and for a short time. What has not ended by
// then is handed over as it is.
func (y *try) readOpen(limit int64, patience time.Duration) {
	p := startPrefix(y.resp.Body, limit, y.flight.progress)
	ended := p.wait(y.call.req.Context(), patience)
	if !ended {
		y.pass(p.seen(), p)
		return
	}
	buf, err := p.seen(), p.ending()
	switch {
	case err == errLimit:
		y.pass(buf, p)
	case err != io.EOF:
		y.lose(err)
	case unframed(y.resp) && isJSON(mediaType(y.resp)) && !json.Valid(buf):
		y.lose(io.ErrUnexpectedEOF)
	default:
		y.resp.Body.Close()
		y.keep(buf)
	}
}

// unframed reports whether only the end of the connection ends the reply, which a cut does as well (RFC 9112 section 6.3).
func unframed(resp *http.Response) bool {
	return resp.ProtoMajor < 2 && resp.ContentLength < 0 && len(resp.TransferEncoding) == 0 && !resp.Uncompressed
}

// pass hands the reply over: what was read of it, and the rest. The attempt's time ends here.
func (y *try) pass(prefix []byte, rest io.ReadCloser) {
	if y.flight.stop() {
		y.lose(context.Canceled)
		return
	}
	y.streaming = true
	switch f := y.flight; {
	case f != nil:
		f.reply = passed{memory: memoryBody{all: prefix}, rest: rest, try: y, status: y.resp.StatusCode}
		y.resp.Body = &f.reply
	case rest != y.resp.Body:
		y.resp.Body = &passed{memory: memoryBody{all: prefix}, rest: rest, try: y, status: y.resp.StatusCode}
	}
}

// A passed body is read by the caller while it arrives. It ends the attempt when it ends or is closed.
type passed struct {
	memory memoryBody // what was read of it
	rest   io.ReadCloser
	try    *try
	status int
}

func (p *passed) Read(b []byte) (int, error) {
	if p.memory.off < len(p.memory.all) {
		return p.memory.Read(b)
	}
	n, err := p.rest.Read(b)
	if err != nil {
		p.try.flight.land()
	}
	if err != nil && err != io.EOF && !p.try.call.safe {
		err = p.try.call.truncated(p.status, err)
	}
	return n, err
}

func (p *passed) Close() error {
	err := p.rest.Close()
	p.try.flight.land()
	return err
}

// truncated is what the caller's reader gets when the reply ends too soon: the status had arrived, and what it proves
// stands.
func (c *call) truncated(status int, err error) error {
	e := c.report()
	e.Err = hide(join(fmt.Errorf("the reply with status %d was cut short", status), err))
	return e
}

// prefixOf returns the body's first bytes if they are in memory. They are the body's own.
func prefixOf(body io.ReadCloser) []byte {
	var b []byte
	switch body := body.(type) {
	case *memoryBody:
		b = body.all
	case *passed:
		b = body.memory.all
	}
	return b[:min(len(b), prefixBytes)]
}

// discard gives the reply back to its connection, if what is left of it is short and comes soon.
func (y *try) discard() {
	if y.resp == nil {
		return
	}
	body := y.resp.Body
	if _, ok := body.(*memoryBody); ok || body == http.NoBody {
		return
	}
	impatient := time.AfterFunc(discardWait, func() { body.Close() })
	io.CopyN(io.Discard, body, discardBytes)
	if impatient.Stop() {
		body.Close()
	}
	y.flight.land()
}

func closeReply(resp *http.Response) {
	if resp.Body != nil {
		resp.Body.Close()
	}
}
