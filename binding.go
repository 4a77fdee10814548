package semel

import (
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"time"
)

// A binding is the request that an operation stands for.
type binding struct {
	method, url string // for errors: the URL without user and query
	print       [sha256.Size]byte
	body        bool // print covers the body; false if that cannot be read ahead
}

func (b *binding) String() string { return b.method + " " + b.url }

// bind fixes the operation to the request, or checks that it is the same one.
func (op *Operation) bind(req *http.Request) error {
	b, err := bindingOf(req)
	if err != nil {
		return refusal(op, 0, err)
	}
	op.mu.Lock()
	defer op.mu.Unlock()
	if op.key == "" {
		op.mint()
	}
	if op.begun.IsZero() {
		op.begun = time.Now()
	}
	was := op.bound
	switch {
	case was == nil:
		op.bound = b
		return nil
	case was.body && b.body && was.print == b.print:
		return nil
	case !was.body && b.body && was.String() == b.String():
		op.bound = b // its body could not be read ahead before
		return nil
	case was.body && b.body, was.String() != b.String():
		return op.refuse(KeyReused, fmt.Errorf("the key belongs to %s and was given to %s, with another URL or body; nothing was sent", was, b))
	default:
		return op.refuse(0, fmt.Errorf("%w: nobody can check that it is the same as before; give the request a GetBody", ErrBody))
	}
}

// check compares the request's body with the one that was bound, before it is sent again.
func (op *Operation) check(req *http.Request) error {
	b, err := bindingOf(req)
	if err != nil {
		return err
	}
	op.mu.Lock()
	defer op.mu.Unlock()
	if op.bound == nil || !op.bound.body || op.bound.print == b.print {
		return nil
	}
	return fmt.Errorf("%w: the body has changed since the operation was bound to it", KeyReused)
}

func bindingOf(req *http.Request) (*binding, error) {
	b := &binding{method: methodOf(req), url: shortURL(req.URL)}
	h := sha256.New()
	field := func(s string) {
		h.Write(binary.BigEndian.AppendUint64(nil, uint64(len(s))))
		io.WriteString(h, s)
	}
	whole := *req.URL
	whole.User, whole.Fragment, whole.RawFragment = nil, "", ""
	field(b.method)
	field(whole.String())
	switch {
	case !hasBody(req):
		b.body = true
	case req.GetBody != nil:
		body, err := openBody(req.GetBody)
		if err != nil {
			return nil, err
		}
		_, err = io.Copy(h, body)
		if err := errors.Join(err, body.Close()); err != nil {
			return nil, fmt.Errorf("%w: reading it: %w", ErrBody, err)
		}
		b.body = true
	}
	h.Sum(b.print[:0])
	return b, nil
}

// shortURL is the URL as errors and saved operations show it: user and query may hold secrets.
func shortURL(u *url.URL) string {
	s := url.URL{Scheme: u.Scheme, Host: u.Host, Path: u.Path, RawPath: u.RawPath, Opaque: u.Opaque}
	return s.String()
}

func hasBody(req *http.Request) bool { return req.Body != nil && req.Body != http.NoBody }
