package testserver_test

import (
	"context"
	"net/http"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/semel-go/semel/testserver"
)

func start(r *http.Request) { _ = testserver.EffectStarting(r.Context()) }

func downstream(r *http.Request) { _, _ = testserver.DownstreamKey(r.Context(), "provider", "step") }

// S3, line by line: what a handler does first, and what the next request with the key finds.
func TestWhatIsRunAgain(t *testing.T) {
	const (
		once, marked, keyed = testserver.Once, testserver.Marked, testserver.Keyed
		unknown             = -409
	)
	status := func(code int) func(http.ResponseWriter, *http.Request) {
		return func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(code) }
	}
	after := func(first func(*http.Request), do func(http.ResponseWriter, *http.Request)) func(http.ResponseWriter, *http.Request) {
		return func(w http.ResponseWriter, r *http.Request) {
			first(r)
			do(w, r)
		}
	}
	fail := func(http.ResponseWriter, *http.Request) { panic("a bug") }
	abort := func(http.ResponseWriter, *http.Request) { panic(http.ErrAbortHandler) }

	for _, tt := range []struct {
		name  string
		kind  testserver.Effect
		first func(http.ResponseWriter, *http.Request)
		then  int // the status that is replayed; 0: it runs again; unknown
	}{
		{"once: a success is stored", once, status(201), 201},
		{"once: a refusal is stored", once, status(422), 422},
		{"once: a failure is stored, B21", once, status(500), 500},
		{"once: 429 is stored", once, status(429), 429},
		{"once: a panic leaves it unknown, B40", once, fail, unknown},
		{"once: an abort leaves it unknown", once, abort, unknown},
		{"marked, before: a success is stored", marked, status(201), 201},
		{"marked, before: a refusal is stored, for the client was told so", marked, status(402), 402},
		{"marked, before: a failure frees the key, B20", marked, status(500), 0},
		{"marked, before: 503 frees the key", marked, status(503), 0},
		{"marked, before: 401 frees the key, B26", marked, status(401), 0},
		{"marked, before: 403 frees the key", marked, status(403), 0},
		{"marked, before: 429 frees the key", marked, status(429), 0},
		{"marked, before: a panic frees the key", marked, fail, 0},
		{"marked, before: an abort frees the key", marked, abort, 0},
		{"marked, after: a success is stored", marked, after(start, status(201)), 201},
		{"marked, after: a failure is stored, B21", marked, after(start, status(500)), 500},
		{"marked, after: 401 is stored", marked, after(start, status(401)), 401},
		{"marked, after: a panic leaves it unknown, B7", marked, after(start, fail), unknown},
		{"keyed: a success is stored", keyed, after(downstream, status(201)), 201},
		{"keyed: a refusal is stored", keyed, after(downstream, status(402)), 402},
		{"keyed: a failure runs again", keyed, after(downstream, status(500)), 0},
		{"keyed: 429 runs again", keyed, after(downstream, status(429)), 0},
		{"keyed: a panic runs again", keyed, after(downstream, fail), 0},
		{"keyed, nothing started: a failure frees the key", keyed, status(500), 0},
		{"keyed, nothing started: a panic frees the key", keyed, fail, 0},
		{"once: marking changes nothing", once, after(start, fail), unknown},
		{"keyed: marking changes nothing", keyed, after(start, fail), 0},
	} {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				e := &effect{do: tt.first}
				g := guard(e)
				g.Effect = tt.kind
				first := do(g, request("k", ""))
				require.False(t, first.replayed())
				time.Sleep(10 * time.Millisecond)

				e.do = nil
				again := do(g, request("k", ""))
				switch tt.then {
				case 0:
					require.Equal(t, 201, again.status, again.body)
					require.False(t, again.replayed())
					require.EqualValues(t, 2, e.runs.Load())
				case unknown:
					again.is(t, 409, "outcome_unknown")
					require.Empty(t, again.header.Get("Retry-After"))
					require.EqualValues(t, 1, e.runs.Load())
					require.Error(t, first.err)
				default:
					require.Equal(t, tt.then, again.status)
					require.True(t, again.replayed())
					require.EqualValues(t, 1, e.runs.Load())
				}
				require.True(t, do(g, request("k", "")).status == again.status)
			})
		})
	}
}

// The record of a keyed operation that started outlives its failures: it says how old the first run is, and the downstream
// forgets its keys.
func TestAKeyedOperationIsRunAgainOnlyWhileTheDownstreamKnowsItsKey(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e := &effect{do: func(w http.ResponseWriter, r *http.Request) {
			downstream(r)
			w.WriteHeader(502)
		}}
		g := guard(e)
		g.Effect, g.DownstreamRetention, g.Deadline = testserver.Keyed, time.Hour, time.Minute
		for range 58 {
			require.Equal(t, 502, do(g, request("k", "")).status)
			time.Sleep(time.Minute)
		}
		require.EqualValues(t, 58, e.runs.Load())
		time.Sleep(time.Minute + time.Second) // a run might now end after the downstream's hour
		do(g, request("k", "")).is(t, 409, "outcome_unknown")
		require.EqualValues(t, 58, e.runs.Load())
		time.Sleep(1000 * time.Hour)
		do(g, request("k", "")).is(t, 409, "outcome_unknown")

		require.Equal(t, 502, do(g, request("other", "")).status, "the limit is each key's own")
	})
}

// A re-run that names nothing does not know what the run before it has started.
func TestAReRunDoesNotForgetTheFirstRun(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e := new(effect)
		e.do = func(w http.ResponseWriter, r *http.Request) {
			if e.runs.Load() == 1 {
				downstream(r)
			}
			w.WriteHeader(503)
		}
		g := guard(e)
		g.Effect = testserver.Keyed
		for range 2 {
			require.Equal(t, 503, do(g, request("k", "")).status)
			time.Sleep(time.Second)
		}
		require.Equal(t, testserver.Pending, state(t, g, "k"))
		time.Sleep(24 * time.Hour)
		do(g, request("k", "")).is(t, 409, "outcome_unknown")
	})
}

func TestADownstreamKeyDependsOnTheOperationAlone(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var got []string
		e := &effect{do: func(w http.ResponseWriter, r *http.Request) {
			key := func(provider, step string) string {
				k, err := testserver.DownstreamKey(r.Context(), provider, step)
				require.NoError(t, err)
				return k
			}
			got = append(got, key("psp", "charge"))
			require.Equal(t, got[0] == key("psp", "charge"), true)
			require.NotEqual(t, key("psp", "charge"), key("psp", "refund"))
			require.NotEqual(t, key("psp", "charge"), key("mail", "charge"))
			require.NotEqual(t, key("ab", "c"), key("a", "bc"))
			w.WriteHeader(503)
		}}
		g := guard(e)
		g.Effect = testserver.Keyed
		for _, key := range []string{"k", `"k"`} {
			do(g, request(key, "")) // the second is a re-run, with the next fence
			time.Sleep(time.Minute)
		}
		e.do = func(_ http.ResponseWriter, r *http.Request) {
			k, _ := testserver.DownstreamKey(r.Context(), "psp", "charge")
			got = append(got, k)
		}
		require.Equal(t, 200, do(g, request("k", "")).status)
		time.Sleep(100 * time.Hour)
		n, err := g.Store.Purge(t.Context(), 10)
		require.NoError(t, err)
		require.Equal(t, 1, n)
		require.Equal(t, 200, do(g, request("k", "")).status) // purged, and another guard and store
		g2 := guard(e)
		require.Equal(t, 200, do(g2, request("k", "")).status)
		require.Len(t, got, 5)
		for _, k := range got {
			require.Equal(t, got[0], k)
			require.Regexp(t, `^[0-9a-f]{8}-[0-9a-f]{4}-8[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}$`, k)
		}
		require.Equal(t, 200, do(g2, request("other", "")).status)
		require.NotEqual(t, got[0], got[5])
		g2.Scope = func(*http.Request) (string, error) { return "else", nil }
		require.Equal(t, 200, do(g2, request("k", "")).status)
		require.NotEqual(t, got[0], got[6])
	})
}

func TestAContextWithoutAGuard(t *testing.T) {
	_, err := testserver.DownstreamKey(context.Background(), "p", "s")
	require.Error(t, err)
	require.Error(t, testserver.EffectStarting(context.Background()), "a handler that is meant to be guarded must notice that it is not")
	_, ok := testserver.HoldFrom(context.Background())
	require.False(t, ok)
}

func TestAMarkThatIsNotRecordedForbidsTheEffect(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		for name, tt := range map[string]struct {
			when func(*flakyStore) map[string]int
			then string // what the next request gets
		}{
			"the store is down":       {func(s *flakyStore) map[string]int { return s.before }, ""},
			"the answer is lost":      {func(s *flakyStore) map[string]int { return s.after }, "outcome_unknown"},
			"the answer is lost once": {nil, ""},
		} {
			var marked error
			e := &effect{do: func(w http.ResponseWriter, r *http.Request) {
				if marked = testserver.EffectStarting(r.Context()); marked != nil {
					w.WriteHeader(500)
				}
			}}
			store := flaky()
			g := guard(e)
			g.Store, g.Effect = store, testserver.Marked
			if tt.when == nil {
				store.fail(store.after, "Renew", 1)
				require.Equal(t, 200, do(g, request("k", "")).status, name)
				require.NoError(t, marked, name)
				continue
			}
			store.fail(tt.when(store), "Renew", 1000)
			require.Equal(t, 500, do(g, request("k", "")).status, name)
			require.ErrorIs(t, marked, errDown, name)
			store.fail(tt.when(store), "Renew", 0)
			again := do(g, request("k", ""))
			require.Equal(t, tt.then, again.code(), name)
		}
	})
}

func TestAMarkAfterTheLeaseIsLostForbidsTheEffect(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var marked []error
		e := &effect{do: func(w http.ResponseWriter, r *http.Request) {
			marked = append(marked, testserver.EffectStarting(r.Context()))
			if marked[len(marked)-1] != nil {
				w.WriteHeader(500)
			}
		}}
		g := guard(e)
		g.Effect, g.Fault = testserver.Marked, testserver.At(testserver.AfterClaim, 1, testserver.Freeze(30*time.Second))
		first := make(chan reply)
		go func() { first <- do(g, request("k", "")) }()
		time.Sleep(11 * time.Second)
		require.Equal(t, 200, do(g, request("k", "")).status)
		got := <-first
		require.Equal(t, 200, got.status)
		require.True(t, got.replayed(), "the lost owner answers with what is stored")
		require.NoError(t, marked[0])
		require.ErrorIs(t, marked[1], testserver.ErrLeaseLost)
	})
}
