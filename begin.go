package semel

import (
	"errors"
	"fmt"
	"net/http"
	"time"
)

// begin finds the operation and its key: the request's header, the operation in the context, the operation that led here
// through a redirect, NewKey. Above is what the request's context has of this package.
func (c *call) begin(above any) error {
	req, d := c.req, &c.t.Dialect
	method := methodOf(req)
	var header string
	if !d.InBody {
		var err error
		if header, err = findKey(req.Header, d.header(), d.Quoted); err != nil {
			return refusal(&c.own, BadKey, err)
		}
	}
	c.brought = header != ""
	prev := leading(req)
	if prev != nil && (prev.hop || methodOf(prev.req) != method) {
		c.op, c.hop = prev.op, true
		return nil
	}
	var u *undertaking
	if above != nil {
		c.op, u = operationIn(req.Context()), undertakingIn(req.Context())
	}
	if c.op != nil && !c.fits(c.op, prev, header) {
		c.op = nil
	}
	given := c.op != nil
	if c.op == nil && prev != nil && (header == "" || header == prev.key) {
		c.op = prev.op
	}
	if c.op == nil && u != nil {
		c.op = u.find(req, header)
	}
	if c.op == nil {
		c.op = &c.own
	}
	err := c.settleKey(header, given, prev)
	if err == nil && u != nil {
		c.own.private = false
		u.note(c.op)
	}
	return err
}

// fits reports whether the caller's operation in the context is this request's: it takes the methods of the dialect, and the
// one it is bound to.
func (c *call) fits(op *Operation, prev *call, header string) bool {
	op.lock()
	defer op.unlock()
	if prev != nil && prev.op == op {
		return true
	}
	if header != "" && header != op.key {
		return false
	}
	method := methodOf(c.req)
	return c.t.Dialect.takes(method) || !c.safe && len(c.t.Dialect.methods()) == 0 || op.bound != nil && op.bound.method == method
}

// settleKey gives the call its key, and binds an operation that the caller made to the request.
func (c *call) settleKey(header string, given bool, prev *call) error {
	op, d := c.op, &c.t.Dialect
	led := prev != nil && prev.op == op
	takes := d.takes(methodOf(c.req))
	op.lock()
	if header != "" && op.key == "" {
		op.bring(header)
	}
	key, nameless := op.key, op.key == "" && op.history.foreign
	op.failed = nil
	c.explicit = given && !led
	op.unlock()
	if nameless {
		return refusal(op, BadKey, errors.New("the key in the context is empty"))
	}
	valid := false
	if key == "" && (takes && !d.InBody || c.explicit) {
		var err error
		if key, valid, err = c.mint(); err != nil {
			return err
		}
	}
	if key != "" && len(d.methods()) > 0 && (takes || header != "" || c.explicit || led && prev.keyed) {
		c.keyed, c.key = true, key
		if !valid {
			if err := d.check(key); err != nil {
				return refusal(op, BadKey, fmt.Errorf("the key cannot be sent: %w", err))
			}
		}
	}
	if c.explicit {
		return op.bind(c.req)
	}
	op.lock()
	defer op.unlock()
	if op.bound == nil && op.first == nil {
		op.first = c.req
	}
	if c.keyed && op.begun.IsZero() {
		op.begun, c.fresh = time.Now(), true
	}
	return nil
}

// mint gives the operation a fresh key, unless another goroutine was faster. Valid says that the key needs no check: a UUID is
// a key wherever the dialect does not say otherwise.
func (c *call) mint() (key string, valid bool, err error) {
	newKey := c.t.NewKey
	if newKey == nil {
		newKey = UUIDv4
	}
	key, err = newKey(c.req)
	if err == nil && key == "" {
		err = errors.New("it returned no key")
	}
	if err != nil {
		return "", false, refusal(c.op, 0, fmt.Errorf("NewKey: %w", err))
	}
	c.op.lock()
	defer c.op.unlock()
	if c.op.key != "" {
		return c.op.key, false, nil
	}
	c.op.key = key
	return key, c.t.NewKey == nil && c.t.Dialect.Valid == nil, nil
}

// leading returns the call whose reply redirected to this request, or nil.
func leading(req *http.Request) *call {
	for n := 0; n < 10 && req.Response != nil && req.Response.Request != nil; n++ {
		req = req.Response.Request
		if c := callIn(req.Context()); c != nil {
			return c
		}
	}
	return nil
}
