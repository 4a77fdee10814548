package proof

import (
	"bytes"
	"context"
	"crypto/tls"
	"errors"
	"io"
	"net/http"
	"strings"
	"time"

	"github.com/semel-go/semel"
)

func clientMutants() []mutant {
	return []mutant{
		{"C1", "a new key for each attempt", onBase(newKeys)},
		{"C2", "the body is not sent again", onBase(emptyRepeats)},
		{"C3", "\"still processing\" is final", classify(http.StatusConflict, semel.Final)},
		{"C4", "409 is taken as success", onBase(conflictIsSuccess)},
		{"C5", "503 is final", classify(http.StatusServiceUnavailable, semel.Final)},
		{"C6", "a network error is a failure for good", networkErrorIsFinal},
		{"C7", "a truncated reply is accepted", onBase(truncatedIsWhole)},
		{"C8", "unknown is reported as failed", belief(func(e Event) bool { return e.Err != nil })},
		{"C9", "no wait between attempts", onTransport(func(t *semel.Transport) { t.Retry.Backoff = func() semel.Backoff { return noWait{} } })},
		{"C10", "Retry-After is ignored", onBase(withoutRetryAfter)},
		{"C11", "422 is repeated", classify(http.StatusUnprocessableEntity, semel.Transient)},
		{"C12", "no limit of attempts", onTransport(func(t *semel.Transport) {
			t.Retry.MaxAttempts, t.Retry.Budget = 25, &semel.Budget{Max: 1e9} // more than any limit here, and an end
		})},
		{"C13", "no deadline", noDeadline},
		{"C14", "net/http repeats by itself", hiddenReplay},
		{"C15", "a late 4xx is taken for the verdict", belief(func(e Event) bool { return e.Verdict == semel.Final && e.Status/100 == 4 })},
	}
}

func onBase(change func(http.RoundTripper) http.RoundTripper) func(*world) defect {
	return func(*world) defect { return defect{onBase: change} }
}

func onTransport(change func(*semel.Transport)) func(*world) defect {
	return func(*world) defect { return defect{onTransport: change} }
}

func newKeys(base http.RoundTripper) http.RoundTripper {
	return trip(func(r *http.Request) (*http.Response, error) {
		if name := keyHeader(r); len(r.Header[name]) == 1 {
			r = r.Clone(r.Context())
			r.Header[name] = []string{r.Header[name][0] + "-" + r.Header.Get(tryHeader)}
		}
		return base.RoundTrip(r)
	})
}

func emptyRepeats(base http.RoundTripper) http.RoundTripper {
	return trip(func(r *http.Request) (*http.Response, error) {
		if try(r) > 1 && r.Body != nil {
			r.Body.Close()
			r = r.Clone(r.Context())
			r.Body, r.ContentLength = http.NoBody, 0
		}
		return base.RoundTrip(r)
	})
}

// classify reads a status with another verdict.
func classify(status int, v semel.Verdict) func(*world) defect {
	return onTransport(func(t *semel.Transport) {
		t.Dialect.Classify = func(resp *http.Response, _ []byte) (semel.Verdict, string) {
			if resp.StatusCode == status {
				return v, ""
			}
			return 0, ""
		}
	})
}

func conflictIsSuccess(base http.RoundTripper) http.RoundTripper {
	return trip(func(r *http.Request) (*http.Response, error) {
		resp, err := base.RoundTrip(r)
		if err == nil && resp.StatusCode == http.StatusConflict {
			resp.StatusCode = http.StatusCreated
		}
		return resp, err
	})
}

// networkErrorIsFinal makes each error one that ends an operation, unsent.
func networkErrorIsFinal(w *world) defect {
	return defect{onBase: func(base http.RoundTripper) http.RoundTripper {
		return trip(func(r *http.Request) (*http.Response, error) {
			resp, err := base.RoundTrip(unseen(w, r, false))
			if err != nil && r.Context().Err() == nil {
				err = &tls.CertificateVerificationError{Err: err}
			}
			return resp, err
		})
	}}
}

func truncatedIsWhole(base http.RoundTripper) http.RoundTripper {
	return trip(func(r *http.Request) (*http.Response, error) {
		resp, err := base.RoundTrip(r)
		if err == nil {
			resp.Body, resp.ContentLength, resp.TransferEncoding = endsWell{resp.Body}, -1, []string{"chunked"}
		}
		return resp, err
	})
}

// endsWell makes a good end of a bad one.
type endsWell struct{ io.ReadCloser }

func (b endsWell) Read(p []byte) (int, error) {
	n, err := b.ReadCloser.Read(p)
	if err != nil {
		err = io.EOF
	}
	return n, err
}

// belief is a caller who takes for failed what he should not.
func belief(when func(Event) bool) func(*world) defect {
	return func(*world) defect {
		return defect{belief: func(e Event) Event {
			if e.Outcome == semel.Unknown && when(e) {
				e.Outcome = semel.NotApplied
			}
			return e
		}}
	}
}

type noWait struct{}

func (noWait) NextBackOff() time.Duration { return 0 }

func withoutRetryAfter(base http.RoundTripper) http.RoundTripper {
	return trip(func(r *http.Request) (*http.Response, error) {
		resp, err := base.RoundTrip(r)
		if err == nil {
			resp.Header.Del("Retry-After")
			resp.Header.Del("Retry-After-Ms")
		}
		return resp, err
	})
}

// noDeadline sees neither the caller's deadline nor his leave.
func noDeadline(*world) defect {
	return defect{
		onRequest:   func(r *http.Request) *http.Request { return r.WithContext(context.WithoutCancel(r.Context())) },
		onTransport: func(t *semel.Transport) { t.Retry.MaxWait = semel.Forever },
	}
}

// hiddenReplay gives net/http what it needs to send a request again by itself.
func hiddenReplay(w *world) defect {
	return defect{onBase: func(base http.RoundTripper) http.RoundTripper {
		return trip(func(r *http.Request) (*http.Response, error) {
			if r.Body == nil || r.Method != http.MethodPost {
				return base.RoundTrip(r)
			}
			body, err := io.ReadAll(r.Body)
			if err := errors.Join(err, r.Body.Close()); err != nil {
				return nil, err
			}
			r = unseen(w, r, true)
			r.GetBody = func() (io.ReadCloser, error) { return io.NopCloser(bytes.NewReader(body)), nil }
			r.Body = io.NopCloser(strings.NewReader(string(body)))
			return base.RoundTrip(r)
		})
	}}
}
