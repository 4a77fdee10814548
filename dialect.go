package semel

import (
	"fmt"
	"net/http"
	"slices"
	"time"
)

// A Dialect is how one API spells idempotency. It is data: copy one and change a field. The zero Dialect is what most APIs
// do: a bare key in Idempotency-Key on POST and PATCH.
type Dialect struct {
	// Header carries the key; if empty, Idempotency-Key.
	Header string
	// InBody says that the key is in the request body, where the caller has put it; no header is sent. Such a request is
	// keyed if its context carries the operation.
	InBody bool
	// Quoted sends the key as a string of RFC 8941, in double quotes.
	Quoted bool
	// Valid refuses keys that the API would refuse, before anything is sent. If nil, 1 to 255 visible ASCII characters.
	Valid func(key string) error
	// Methods take a key; if nil, POST and PATCH. An empty, non-nil slice is an API without keys.
	Methods []string
	// Lifetime is how long the API remembers a key, counted from the operation's beginning; if 0, 24 hours; Forever for
	// no limit. An attempt that could end later is not made.
	Lifetime time.Duration
	// Replayed tells an answer that the server had stored; if nil, the header "Idempotent-Replayed: true" does.
	Replayed func(*http.Response) bool
	// ShouldRetry names a response header that says "true" or "false"; if empty, none is read.
	ShouldRetry string
	// MinWait is the shortest wait before a repeat that the API asks for.
	MinWait time.Duration
	// Extra adds headers to each keyed attempt, given the time at which the operation began.
	Extra func(h http.Header, begun time.Time)
	// FailuresRollBack says that a 5xx proves that nothing happened.
	FailuresRollBack bool
	// Classify reads a reply with a status of 400 or more and at most the first 16 KiB of its body. It must not read the
	// body itself. The string is the resource of AlreadyDone. Verdict 0 leaves the reply to the default reading.
	Classify func(resp *http.Response, prefix []byte) (Verdict, string)
}

// None is for APIs without keys: an operation is repeated only if its method is idempotent or nothing was processed.
var None = Dialect{Methods: []string{}}

var keyedMethods = []string{http.MethodPost, http.MethodPatch}

// valid refuses nonsense by the name of its field.
func (d *Dialect) valid() error {
	switch {
	case d.Header != "" && !token(d.Header):
		return fmt.Errorf("Dialect.Header is no header name: %q", d.Header)
	case d.Lifetime < 0:
		return fmt.Errorf("Dialect.Lifetime is negative: %v", d.Lifetime)
	case d.MinWait < 0:
		return fmt.Errorf("Dialect.MinWait is negative: %v", d.MinWait)
	}
	return nil
}

func (d *Dialect) header() string { return or(d.Header, "Idempotency-Key") }

// canonical is the header as net/http spells it in its maps.
func (d *Dialect) canonical() string {
	if d.Header == "" {
		return "Idempotency-Key"
	}
	return http.CanonicalHeaderKey(d.Header)
}

func (d *Dialect) methods() []string {
	if d.Methods == nil {
		return keyedMethods
	}
	return d.Methods
}

func (d *Dialect) takes(method string) bool { return slices.Contains(d.methods(), method) }

func (d *Dialect) lifetime() time.Duration { return or(d.Lifetime, 24*time.Hour) }

func (d *Dialect) check(key string) error {
	if d.Valid != nil {
		return d.Valid(key)
	}
	return validKey(key, d.Quoted)
}

func (d *Dialect) replayed(resp *http.Response) bool {
	if d.Replayed != nil {
		return d.Replayed(resp)
	}
	v := resp.Header["Idempotent-Replayed"]
	return len(v) > 0 && v[0] == "true"
}
