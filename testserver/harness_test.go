package testserver_test

import (
	"context"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/semel-go/semel/testserver"
)

// A reply is what a client has read.
type reply struct {
	status int
	header http.Header
	body   string
	err    error
}

func (r reply) replayed() bool { return r.header.Get("Idempotent-Replayed") == "true" }

func (r reply) code() string {
	_, after, _ := strings.Cut(r.body, `"code":"`)
	code, _, _ := strings.Cut(after, `"`)
	return code
}

func (r reply) is(t testing.TB, status int, code string) {
	t.Helper()
	require.NoError(t, r.err)
	require.Equal(t, status, r.status, r.body)
	require.Equal(t, code, r.code(), r.body)
}

const transfer = `{"from":"alice","to":"bob","amount":100}`

func request(key, body string, header ...string) *http.Request {
	r := httptest.NewRequest(http.MethodPost, "/transfers", strings.NewReader(body))
	if key != "" {
		r.Header.Set("Idempotency-Key", key)
	}
	for i := 0; i < len(header); i += 2 {
		r.Header.Add(header[i], header[i+1])
	}
	return r
}

var errCut = errors.New("the connection was cut")

// do serves the request without a network, for simulated time. A panic of the handler cuts the connection.
func do(h http.Handler, r *http.Request) (out reply) {
	w := httptest.NewRecorder()
	defer func() {
		if recover() != nil {
			out = reply{err: errCut}
		}
	}()
	h.ServeHTTP(w, r)
	return reply{w.Code, w.Result().Header, w.Body.String(), nil}
}

// post sends a transfer over the network.
func post(t testing.TB, s *testserver.Server, key, body string, header ...string) reply {
	t.Helper()
	req, err := http.NewRequest(http.MethodPost, s.URL+"/transfers", strings.NewReader(body))
	require.NoError(t, err)
	req.GetBody = nil // net/http must not repeat by itself
	if key != "" {
		req.Header.Set("Idempotency-Key", key)
	}
	for i := 0; i < len(header); i += 2 {
		req.Header.Add(header[i], header[i+1])
	}
	return read(s.Client().Do(req))
}

func read(resp *http.Response, err error) reply {
	if err != nil {
		return reply{err: err}
	}
	defer resp.Body.Close()
	b, err := io.ReadAll(resp.Body)
	return reply{resp.StatusCode, resp.Header, string(b), err}
}

// An effect is a handler that counts how often it ran. do must not change while it is in use.
type effect struct {
	runs atomic.Int64
	do   func(w http.ResponseWriter, r *http.Request)
}

func (e *effect) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	e.runs.Add(1)
	if e.do != nil {
		e.do(w, r)
		return
	}
	w.WriteHeader(http.StatusCreated)
}

func guard(h http.Handler) *testserver.Guard {
	return &testserver.Guard{Next: h, Store: new(testserver.MemStore), Scope: testserver.GlobalScope, Lease: 10 * time.Second}
}

// A flakyStore fails where it is told to, before or after the call took place.
type flakyStore struct {
	testserver.Store
	mu            sync.Mutex
	before, after map[string]int // failures left, by method
	calls         map[string]int
}

var errDown = errors.New("the store is down")

func flaky() *flakyStore {
	return &flakyStore{Store: new(testserver.MemStore), before: map[string]int{}, after: map[string]int{}, calls: map[string]int{}}
}

func (s *flakyStore) call(name string, do func() error) error {
	s.mu.Lock()
	s.calls[name]++
	s.mu.Unlock()
	if s.take(s.before, name) {
		return errDown
	}
	err := do()
	if s.take(s.after, name) {
		return errDown
	}
	return err
}

func (s *flakyStore) take(left map[string]int, name string) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	left[name]--
	return left[name] >= 0
}

func (s *flakyStore) fail(when map[string]int, name string, times int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	when[name] = times
}

func (s *flakyStore) Claim(ctx context.Context, c testserver.Claim) (rec testserver.Record, err error) {
	err = s.call("Claim", func() (err error) {
		rec, err = s.Store.Claim(ctx, c)
		return err
	})
	return rec, err
}

func (s *flakyStore) Renew(ctx context.Context, lease time.Duration, holds []testserver.Hold) (all []testserver.Renewal, err error) {
	err = s.call("Renew", func() (err error) {
		all, err = s.Store.Renew(ctx, lease, holds)
		return err
	})
	return all, err
}

func (s *flakyStore) Settle(ctx context.Context, h testserver.Hold, e testserver.Settlement) error {
	return s.call("Settle", func() error { return s.Store.Settle(ctx, h, e) })
}

func (s *flakyStore) Look(ctx context.Context, id testserver.ID) (rec testserver.Record, err error) {
	err = s.call("Look", func() (err error) {
		rec, err = s.Store.Look(ctx, id)
		return err
	})
	return rec, err
}

func (s *flakyStore) Purge(ctx context.Context, limit int) (n int, err error) {
	err = s.call("Purge", func() (err error) {
		n, err = s.Store.Purge(ctx, limit)
		return err
	})
	return n, err
}

func id(key string) testserver.ID { return testserver.ID{Scope: "global", Key: key} }

func state(t testing.TB, g *testserver.Guard, key string) testserver.State {
	t.Helper()
	rec, err := g.Store.Look(t.Context(), id(key))
	require.NoError(t, err)
	return rec.State
}

type ctxKey struct{}

func contextWith(r *http.Request, v any) context.Context {
	return context.WithValue(r.Context(), ctxKey{}, v)
}
