package testserver_test

import (
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"testing/iotest"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/semel-go/semel/testserver"
)

func TestAGuardThatIsNotSetUpRunsNothing(t *testing.T) {
	for field, spoil := range map[string]func(*testserver.Guard){
		"Next":                func(g *testserver.Guard) { g.Next = nil },
		"Store":               func(g *testserver.Guard) { g.Store = nil },
		"Scope":               func(g *testserver.Guard) { g.Scope = nil },
		"Effect":              func(g *testserver.Guard) { g.Effect = 17 },
		"Lease":               func(g *testserver.Guard) { g.Lease = -1 },
		"Retention":           func(g *testserver.Guard) { g.Retention = -1 },
		"DownstreamRetention": func(g *testserver.Guard) { g.DownstreamRetention = -1 },
		"MaxBody":             func(g *testserver.Guard) { g.MaxBody = -1 },
		"MaxReply":            func(g *testserver.Guard) { g.MaxReply = -1 },
		"MaxWaiters":          func(g *testserver.Guard) { g.MaxWaiters = -1 },
	} {
		t.Run(field, func(t *testing.T) {
			e := new(effect)
			g := guard(e)
			require.NoError(t, g.Check())
			spoil(g)

			var config *testserver.ConfigError
			require.ErrorAs(t, g.Check(), &config)
			require.Equal(t, field, config.Field)
			for _, r := range []*http.Request{request("k", ""), request("", ""), httptest.NewRequest("GET", "/", nil)} {
				got := do(g, r)
				got.is(t, 500, "misconfigured")
				require.Contains(t, got.body, field)
			}
			require.Zero(t, e.runs.Load())
		})
	}
	g := guard(new(effect))
	g.Store, g.Effect = struct{ testserver.Store }{g.Store}, testserver.Transactional
	require.ErrorContains(t, g.Check(), "Store")
}

func TestWhichRequestsTakeAKey(t *testing.T) {
	for _, tt := range []struct {
		name    string
		method  string
		methods []string
		runs    int64 // after the same request twice
	}{
		{"POST", "POST", nil, 1},
		{"PATCH", "PATCH", nil, 1},
		{"GET passes", "GET", nil, 2},
		{"HEAD passes", "HEAD", nil, 2},
		{"OPTIONS passes", "OPTIONS", nil, 2},
		{"PUT passes", "PUT", nil, 2},
		{"DELETE passes", "DELETE", nil, 2},
		{"PUT if it is said so", "PUT", []string{"PUT"}, 1},
		{"and then POST passes", "POST", []string{"PUT"}, 2},
		{"none", "POST", []string{}, 2},
	} {
		t.Run(tt.name, func(t *testing.T) {
			e := new(effect)
			g := guard(e)
			g.Methods = tt.methods
			for range 2 {
				r := request("k", "body")
				r.Method = tt.method
				require.Equal(t, 201, do(g, r).status)
			}
			require.Equal(t, tt.runs, e.runs.Load())
		})
	}
}

func TestARequestThatClaimsNothing(t *testing.T) {
	two := request("a", "", "Idempotency-Key", "b")
	short := request("k", "")
	short.Body, short.ContentLength = io.NopCloser(strings.NewReader("half")), 8
	broken := request("k", "")
	broken.Body, broken.ContentLength = io.NopCloser(iotest.ErrReader(io.ErrUnexpectedEOF)), -1
	liar := request("k", "")
	liar.Body, liar.ContentLength = io.NopCloser(strings.NewReader(strings.Repeat("x", 101))), -1
	for _, tt := range []struct {
		name   string
		r      *http.Request
		scope  func(*http.Request) (string, error)
		status int
		code   string
	}{
		{"no key", request("", ""), nil, 400, "key_missing"},
		{"two keys", two, nil, 400, "key_invalid"},
		{"an empty key", request("", "", "Idempotency-Key", ""), nil, 400, "key_invalid"},
		{"a malformed key", request("a b", ""), nil, 400, "key_invalid"},
		{"a body that ends early, faults.md 7", short, nil, 400, "body_incomplete"},
		{"a body that breaks off", broken, nil, 400, "body_incomplete"},
		{"a body too large", request("k", strings.Repeat("x", 101)), nil, 413, "body_too_large"},
		{"a body too large that does not say so", liar, nil, 413, "body_too_large"},
		{"an unknown principal, B46", request("k", ""), func(*http.Request) (string, error) { return "", nil }, 403, "scope_refused"},
		{"a scope that fails", request("k", ""), func(*http.Request) (string, error) { return "x", errors.New("secret") }, 403, "scope_refused"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			e := new(effect)
			store := flaky()
			g := guard(e)
			g.Store, g.MaxBody = store, 100
			if tt.scope != nil {
				g.Scope = tt.scope
			}
			got := do(g, tt.r)
			got.is(t, tt.status, tt.code)
			require.Equal(t, "application/problem+json", got.header.Get("Content-Type"))
			require.Contains(t, got.body, `"type":"https://github.com/semel-go/semel/blob/main/docs/problems.md#`+tt.code+`"`)
			require.NotContains(t, got.body, "secret")
			require.Empty(t, got.header.Get("Retry-After"))
			require.Zero(t, e.runs.Load())
			require.Zero(t, store.calls["Claim"])
		})
	}
}

func TestAnOptionalKey(t *testing.T) {
	e := &effect{do: func(_ http.ResponseWriter, r *http.Request) {
		_, guarded := testserver.HoldFrom(r.Context())
		require.Equal(t, r.Header.Get("Idempotency-Key") != "", guarded)
		require.NoError(t, testserver.EffectStarting(r.Context()))
		_, err := testserver.DownstreamKey(r.Context(), "p", "s")
		require.Equal(t, guarded, err == nil)
	}}
	g := guard(e)
	g.Optional, g.Effect = true, testserver.Marked

	for range 2 {
		require.Equal(t, 200, do(g, request("", "")).status)
	}
	require.EqualValues(t, 2, e.runs.Load(), "without a key nothing is protected")
	do(g, request("", "", "Idempotency-Key", "")).is(t, 400, "key_invalid")
	for range 2 {
		require.Equal(t, 200, do(g, request("k", "")).status)
	}
	require.EqualValues(t, 3, e.runs.Load())
}

func TestTheHeaderCanHaveAnotherName(t *testing.T) {
	e := new(effect)
	g := guard(e)
	g.Header = "PayPal-Request-Id"
	do(g, request("k", "")).is(t, 400, "key_missing")
	for range 2 {
		require.Equal(t, 201, do(g, request("", "", "PayPal-Request-Id", "k")).status)
	}
	require.EqualValues(t, 1, e.runs.Load())
}

// servers.md B24: another principal's answer is not replayed. B33: another credential of the same principal is the same.
func TestAKeyBelongsToItsScope(t *testing.T) {
	e := &effect{do: func(w http.ResponseWriter, r *http.Request) {
		user, _, _ := r.BasicAuth()
		_, _ = io.WriteString(w, user)
	}}
	g := guard(e)
	g.Scope = func(r *http.Request) (string, error) {
		user, _, ok := r.BasicAuth()
		if !ok {
			return "", errors.New("anonymous")
		}
		return user, nil
	}
	as := func(user, password string) reply {
		r := request("k", "")
		r.SetBasicAuth(user, password)
		return do(g, r)
	}
	require.Equal(t, "ann", as("ann", "old").body)
	require.Equal(t, "bob", as("bob", "x").body)
	again := as("ann", "new")
	require.Equal(t, "ann", again.body)
	require.True(t, again.replayed())
	require.EqualValues(t, 2, e.runs.Load())
}

// servers.md B25
func TestAKeyOnAnotherRouteIsReused(t *testing.T) {
	e := new(effect)
	g := guard(e)
	do(g, request("k", ""))
	r := request("k", "")
	r.URL.Path = "/refunds"
	do(g, r).is(t, 422, "key_reused")
	require.EqualValues(t, 1, e.runs.Load())
}

func TestTheHandlerGetsTheRequestWhole(t *testing.T) {
	e := &effect{do: func(w http.ResponseWriter, r *http.Request) {
		b, err := io.ReadAll(r.Body)
		require.NoError(t, err)
		require.EqualValues(t, len(b), r.ContentLength)
		require.Equal(t, "v", r.Context().Value(ctxKey{}))
		_, _ = w.Write(b)
	}}
	r := request("k", "a body")
	r.ContentLength = -1
	require.Equal(t, "a body", do(guard(e), r.WithContext(contextWith(r, "v"))).body)
}

// servers.md B22 and B23: each reply of the guard has its own code, and says that it is one.
func TestWhatIsToldOfAnEarlierRequest(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		release := make(chan struct{})
		e := &effect{do: func(w http.ResponseWriter, _ *http.Request) {
			<-release
			w.WriteHeader(500)
		}}
		g := guard(e)
		first := make(chan reply, 1)
		go func() { first <- do(g, request("k", "1")) }()
		time.Sleep(time.Second)

		got := do(g, request("k", "1"))
		got.is(t, 409, "in_progress")
		require.Equal(t, "1", got.header.Get("Retry-After"))
		require.Equal(t, "500", got.header.Get("Retry-After-Ms"))
		require.Equal(t, "no-store", got.header.Get("Cache-Control"))
		do(g, request("k", "2")).is(t, 422, "key_reused") // at once, also while pending

		close(release)
		require.Equal(t, 500, (<-first).status)
		got = do(g, request("k", "1"))
		require.Equal(t, 500, got.status)
		require.True(t, got.replayed(), "a stored failure is not a fresh one")
		do(g, request("k", "2")).is(t, 422, "key_reused")
		require.EqualValues(t, 1, e.runs.Load())
	})
}

func TestAnOperationOlderThanTheMemory(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e := new(effect)
		g := guard(e)
		begun := time.Now().UTC().Format(http.TimeFormat)
		require.Equal(t, 201, do(g, request("k", "", "Repeatability-First-Sent", begun)).status)
		time.Sleep(72*time.Hour - time.Second)
		require.True(t, do(g, request("k", "", "Repeatability-First-Sent", begun)).replayed())
		time.Sleep(2 * time.Second)
		do(g, request("k", "", "Repeatability-First-Sent", begun)).is(t, 412, "key_expired")
		require.EqualValues(t, 1, e.runs.Load())

		require.Equal(t, 201, do(g, request("k", "")).status, "a key that has expired is free again")
		require.True(t, do(g, request("k", "", "Repeatability-First-Sent", begun)).replayed())
		require.EqualValues(t, 2, e.runs.Load())
	})
}
