package semeltest_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/semel-go/semel"
	"github.com/semel-go/semel/semeltest"
)

type roundTrip func(*http.Request) (*http.Response, error)

func (f roundTrip) RoundTrip(r *http.Request) (*http.Response, error) { return f(r) }

type maker = func(base http.RoundTripper) http.RoundTripper

// below puts a defect between semel and the network.
func below(defect func(base http.RoundTripper, r *http.Request) (*http.Response, error)) maker {
	return func(base http.RoundTripper) http.RoundTripper {
		return &semel.Transport{Base: roundTrip(func(r *http.Request) (*http.Response, error) { return defect(base, r) })}
	}
}

// above puts a defect between semel and its caller.
func above(defect func(rt http.RoundTripper, r *http.Request) (*http.Response, error)) maker {
	return func(base http.RoundTripper) http.RoundTripper {
		rt := &semel.Transport{Base: base}
		return roundTrip(func(r *http.Request) (*http.Response, error) { return defect(rt, r) })
	}
}

// judging lets semel read a status otherwise.
func judging(status int, v semel.Verdict) maker {
	return func(base http.RoundTripper) http.RoundTripper {
		return &semel.Transport{Base: base, Dialect: semel.Dialect{Classify: func(r *http.Response, _ []byte) (semel.Verdict, string) {
			if r.StatusCode == status {
				return v, ""
			}
			return 0, ""
		}}}
	}
}

func patient(p semel.Policy) maker {
	p.Budget = &semel.Budget{Max: 1e6}
	return func(base http.RoundTripper) http.RoundTripper { return &semel.Transport{Base: base, Retry: p} }
}

type fixed time.Duration

func (f fixed) NextBackOff() time.Duration { return time.Duration(f) }

// counting runs a defect with the number of the attempt of its key.
func counting(defect func(base http.RoundTripper, r *http.Request, n int) (*http.Response, error)) maker {
	return func(base http.RoundTripper) http.RoundTripper {
		var mu sync.Mutex
		attempts := make(map[string]int)
		return below(func(base http.RoundTripper, r *http.Request) (*http.Response, error) {
			key := r.Header.Get("Idempotency-Key")
			mu.Lock()
			attempts[key]++
			n := attempts[key]
			mu.Unlock()
			return defect(base, r, n)
		})(base)
	}
}

func never(err error) error { return fmt.Errorf("%w: %v", semel.NotApplied, err) }

// plain is the loop that people write.
func plain(change func(*http.Request)) maker {
	return func(base http.RoundTripper) http.RoundTripper {
		return roundTrip(func(r *http.Request) (resp *http.Response, err error) {
			change(r)
			for range 4 {
				if r.GetBody != nil {
					r.Body, _ = r.GetBody()
				}
				if resp, err = base.RoundTrip(r); err == nil && resp.StatusCode < 500 {
					return resp, nil
				}
				time.Sleep(100 * time.Millisecond)
			}
			return resp, err
		})
	}
}

// badTransports are defects, and the case that is there for each. C1 to C15 are those of faults.md 5.
var badTransports = []struct {
	defect string
	caught string
	make   maker
}{
	{"C1: a new key per attempt", "back/the reply is lost by RST", counting(func(base http.RoundTripper, r *http.Request, n int) (*http.Response, error) {
		r = r.Clone(r.Context())
		r.Header.Set("Idempotency-Key", fmt.Sprintf("%s-%d", r.Header.Get("Idempotency-Key"), n))
		return base.RoundTrip(r)
	})},
	{"C2: the body is not rewound", "body/it is whole in every attempt", counting(func(base http.RoundTripper, r *http.Request, n int) (*http.Response, error) {
		if n > 1 {
			r = r.Clone(r.Context())
			r.Body, r.ContentLength = http.NoBody, 0
		}
		return base.RoundTrip(r)
	})},
	{"C3: in progress is final", "running/in progress is not the end", judging(409, semel.Final)},
	{"C4: a 409 is taken for success", "running/in progress is not the end", above(func(rt http.RoundTripper, r *http.Request) (*http.Response, error) {
		base := rt.(*semel.Transport).Base
		resp, err := base.RoundTrip(r)
		if err == nil && resp.StatusCode == 409 {
			resp.StatusCode = 200
		}
		return resp, err
	})},
	{"C5: a 503 is final", "status/503 is tried again", judging(503, semel.Final)},
	{"C6: a network error is a failure", "back/the reply is lost by RST", above(func(rt http.RoundTripper, r *http.Request) (*http.Response, error) {
		resp, err := rt.(*semel.Transport).Base.RoundTrip(r)
		if err != nil {
			return nil, never(err)
		}
		return resp, nil
	})},
	{"C7: a cut body is accepted", "back/the reply is cut in its body", below(func(base http.RoundTripper, r *http.Request) (*http.Response, error) {
		resp, err := base.RoundTrip(r)
		if err == nil {
			body, _ := io.ReadAll(resp.Body)
			resp.Body.Close()
			resp.Body, resp.ContentLength = io.NopCloser(bytes.NewReader(body)), int64(len(body))
		}
		return resp, err
	})},
	{"C8: unknown is called failed", "back/every reply is lost", above(func(rt http.RoundTripper, r *http.Request) (*http.Response, error) {
		resp, err := rt.RoundTrip(r)
		if err != nil {
			return nil, never(errors.New("no answer"))
		}
		return resp, nil
	})},
	{"C9: no wait between attempts", "status/503 for ever", patient(semel.Policy{Backoff: func() semel.Backoff { return fixed(0) }})},
	{"C10: Retry-After is ignored", "status/Retry-After is obeyed", below(func(base http.RoundTripper, r *http.Request) (*http.Response, error) {
		resp, err := base.RoundTrip(r)
		if err == nil {
			resp.Header.Del("Retry-After")
		}
		return resp, err
	})},
	{"C10: Retry-After of polls is ignored", "running/the wait is obeyed", below(func(base http.RoundTripper, r *http.Request) (*http.Response, error) {
		resp, err := base.RoundTrip(r)
		if err == nil {
			resp.Header.Set("Retry-After", "0")
		}
		return resp, err
	})},
	{"C11: a reused key is tried again", "status/a reused key is not tried again", judging(422, semel.Transient)},
	{"C12: attempts have no limit", "status/503 for ever", patient(semel.Policy{MaxAttempts: 1e6, Backoff: func() semel.Backoff { return fixed(time.Second) }})},
	{"C12: dials have no limit", "out/a dial that is refused for ever ends", patient(semel.Policy{MaxAttempts: 1e6, Backoff: func() semel.Backoff { return fixed(time.Second) }})},
	{"C13: the deadline is ignored", "status/Retry-After beyond the deadline", func(base http.RoundTripper) http.RoundTripper {
		rt := &semel.Transport{Base: base, Retry: semel.Policy{MaxWait: time.Hour}}
		return roundTrip(func(r *http.Request) (*http.Response, error) {
			return rt.RoundTrip(r.WithContext(context.WithoutCancel(r.Context())))
		})
	}},
	{"C14: net/http repeats by itself", "out/net/http does not send again by itself", below(func(base http.RoundTripper, r *http.Request) (*http.Response, error) {
		body, err := io.ReadAll(r.Body)
		r.Body.Close()
		if err != nil {
			return nil, err
		}
		r = r.Clone(r.Context())
		r.GetBody = func() (io.ReadCloser, error) { return io.NopCloser(bytes.NewReader(body)), nil }
		r.Body, _ = r.GetBody()
		return base.RoundTrip(r)
	})},
	{"C15: a late 401 is taken for a verdict", "status/401 after a lost reply is no verdict", above(func(rt http.RoundTripper, r *http.Request) (*http.Response, error) {
		resp, err := rt.RoundTrip(r)
		if err == nil && resp.StatusCode == 401 {
			resp.Body.Close()
			return nil, never(errors.New("401"))
		}
		return resp, err
	})},
	{"a reply is turned into an error", "contract/a reply is no error", above(func(rt http.RoundTripper, r *http.Request) (*http.Response, error) {
		resp, err := rt.RoundTrip(r)
		if err == nil && resp.StatusCode >= 500 {
			resp.Body.Close()
			return nil, errors.New("giving up")
		}
		return resp, err
	})},
	{"a reply comes with an error", "contract/a reply is no error", above(func(rt http.RoundTripper, r *http.Request) (*http.Response, error) {
		resp, err := rt.RoundTrip(r)
		if err == nil && resp.StatusCode >= 500 {
			return resp, errors.New("giving up")
		}
		return resp, err
	})},
	{"redirects are followed", "contract/redirects are the client's", above(func(rt http.RoundTripper, r *http.Request) (*http.Response, error) {
		r = r.Clone(r.Context())
		return (&http.Client{Transport: rt}).Do(r)
	})},
	{"discarded replies stay open", "contract/discarded replies are closed", plain(func(*http.Request) {})},
	{"streams are read to their end", "contract/a reply without end is handed over", above(func(rt http.RoundTripper, r *http.Request) (*http.Response, error) {
		resp, err := rt.RoundTrip(r)
		if err == nil {
			body, _ := io.ReadAll(resp.Body)
			resp.Body.Close()
			resp.Body = io.NopCloser(bytes.NewReader(body))
		}
		return resp, err
	})},
	{"the context's error is lost", "contract/the context's error is recognized", above(func(rt http.RoundTripper, r *http.Request) (*http.Response, error) {
		resp, err := rt.RoundTrip(r)
		if err != nil {
			err = errors.New(err.Error())
		}
		return resp, err
	})},
	{"the failure is lost", "contract/the failure is kept", above(func(rt http.RoundTripper, r *http.Request) (*http.Response, error) {
		resp, err := rt.RoundTrip(r)
		if err != nil {
			err = errors.New("no attempts left")
		}
		return resp, err
	})},
	{"the request is shared", "contract/concurrent use", func(base http.RoundTripper) http.RoundTripper {
		rt := &semel.Transport{Base: base}
		var mu sync.Mutex
		var last *http.Request
		return roundTrip(func(r *http.Request) (*http.Response, error) {
			mu.Lock()
			last = r
			mu.Unlock()
			time.Sleep(time.Millisecond)
			mu.Lock()
			mine := last.Clone(r.Context())
			mu.Unlock()
			mine.Body, _ = mine.GetBody()
			return rt.RoundTrip(mine)
		})
	}},
	{"the request is changed", "contract/the request is not modified", plain(func(r *http.Request) { r.Header.Set("X-Attempt", "1") })},
	{"the key is rewritten", "contract/the caller's key goes out unchanged", above(func(rt http.RoundTripper, r *http.Request) (*http.Response, error) {
		r = r.Clone(r.Context())
		r.Header.Set("Idempotency-Key", strings.ToUpper(r.Header.Get("Idempotency-Key")))
		return rt.RoundTrip(r)
	})},
	{"a POST without a key is repeated", "contract/without a key a lost POST is not repeated", plain(func(*http.Request) {})},
	{"the body is not closed", "body/it is closed after an answer", unclosed},
	{"the body is not closed when nothing was sent", "body/it is closed when nothing can be sent", unclosed},
	{"the body is not closed when the context has ended", "body/it is closed when the context has ended", unclosed},
	{"the rest of a body is sent", "body/one that cannot be had again is whole or sent once", spent},
	{"the rest of a pipe is sent", "body/one of unknown length is whole or sent once", spent},
	{"the body's failure is taken for its end", "body/its source fails", above(func(rt http.RoundTripper, r *http.Request) (*http.Response, error) {
		r = r.Clone(r.Context())
		body, _ := io.ReadAll(r.Body)
		r.Body, r.ContentLength = io.NopCloser(bytes.NewReader(body)), int64(len(body))
		return rt.RoundTrip(r)
	})},
	{"an early refusal is taken for success", "body/a refusal before it was read is returned", above(func(rt http.RoundTripper, r *http.Request) (*http.Response, error) {
		resp, err := rt.RoundTrip(r)
		if err == nil && resp.StatusCode == 413 {
			resp.StatusCode = 200
		}
		return resp, err
	})},
	{"attempts share a reader", "body/after an early 503 it is sent whole", func(base http.RoundTripper) http.RoundTripper {
		return roundTrip(func(r *http.Request) (resp *http.Response, err error) {
			body, err := io.ReadAll(r.Body)
			if err != nil {
				return nil, err
			}
			shared := &lockedReader{r: bytes.NewReader(body)}
			for range 4 {
				c := r.Clone(r.Context())
				c.Body, c.GetBody, c.ContentLength = io.NopCloser(shared), nil, int64(shared.Len())
				if resp, err = base.RoundTrip(c); err == nil && resp.StatusCode != 503 {
					return resp, nil
				}
				time.Sleep(time.Second)
			}
			return resp, err
		})
	}},
}

// A lockedReader is shared without a race, so that it is the wrong bytes that are found.
type lockedReader struct {
	mu sync.Mutex
	r  *bytes.Reader
}

func (l *lockedReader) Read(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.r.Read(p)
}

func (l *lockedReader) Len() int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.r.Len()
}

// unclosed hides the caller's body from whoever would close it.
var unclosed = above(func(rt http.RoundTripper, r *http.Request) (*http.Response, error) {
	r = r.Clone(r.Context())
	r.Body = io.NopCloser(r.Body)
	return rt.RoundTrip(r)
})

// spent sends what is left of the body.
func spent(base http.RoundTripper) http.RoundTripper {
	return roundTrip(func(r *http.Request) (resp *http.Response, err error) {
		for range 3 {
			c := r.Clone(r.Context())
			c.Body, c.ContentLength = io.NopCloser(r.Body), -1
			if resp, err = base.RoundTrip(c); err == nil {
				break
			}
		}
		r.Body.Close()
		return resp, err
	})
}

func TestEachCaseCatchesItsBadTransport(t *testing.T) {
	for _, bad := range badTransports {
		t.Run(bad.defect, func(t *testing.T) {
			require.NotNil(t, semeltest.TransportCase(t, bad.caught, bad.make), "the case %q finds nothing", bad.caught)
		})
	}
}
