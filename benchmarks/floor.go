package benchmarks

import (
	"crypto/rand"
	"io"
	"maps"
	"net/http"
	"unsafe"
)

// floorTransport is the cheapest conceivable keyed RoundTripper: a yardstick, not a product. Its happy path makes three
// allocations: one struct of request copy, header value and key, and a cloned header map.
type floorTransport struct{ next http.RoundTripper }

func newFloor(rt http.RoundTripper) http.RoundTripper { return floorTransport{rt} }

type keyedRequest struct {
	req  http.Request
	vals [1]string
	key  [36]byte
}

func (t floorTransport) RoundTrip(req *http.Request) (*http.Response, error) {
	kr := &keyedRequest{req: *req}
	r := &kr.req
	if len(req.Header["Idempotency-Key"]) == 0 {
		encodeUUID(&kr.key)
		kr.vals[0] = unsafe.String(&kr.key[0], len(kr.key))
		h := maps.Clone(req.Header)
		if h == nil {
			h = make(http.Header, 1)
		}
		h["Idempotency-Key"] = kr.vals[:]
		r.Header = h
	}
	for n := 1; ; n++ {
		resp, err := t.next.RoundTrip(r)
		if n >= 3 || (err == nil && resp.StatusCode < 500) {
			return resp, err
		}
		if err != nil && req.Context().Err() != nil {
			return resp, err
		}
		if req.Body != nil && req.Body != http.NoBody && req.GetBody == nil {
			return resp, err
		}
		if resp != nil {
			io.CopyN(io.Discard, resp.Body, 4096)
			resp.Body.Close()
		}
		again := *r // the first copy may still be in a write loop
		r = &again
		if req.GetBody != nil {
			if r.Body, err = req.GetBody(); err != nil {
				return nil, err
			}
		}
	}
}

// hexPair holds the two hex digits of every byte.
var hexPair = func() (t [256][2]byte) {
	const digits = "0123456789abcdef"
	for i := range t {
		t[i] = [2]byte{digits[i>>4], digits[i&15]}
	}
	return t
}()

// uuidAt is where each byte's digits go in 8-4-4-4-12.
var uuidAt = [16]uint8{0, 2, 4, 6, 9, 11, 14, 16, 19, 21, 24, 26, 28, 30, 32, 34}

func encodeUUID(dst *[36]byte) {
	var u [16]byte
	rand.Read(u[:])
	u[6], u[8] = u[6]&0x0f|0x40, u[8]&0x3f|0x80
	for i, at := range uuidAt {
		p := &hexPair[u[i]]
		dst[at], dst[at+1] = p[0], p[1]
	}
	dst[8], dst[13], dst[18], dst[23] = '-', '-', '-', '-'
}
