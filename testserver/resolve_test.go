package testserver_test

import (
	"errors"
	"net/http"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/semel-go/semel/testserver"
)

// unknown returns a guard with a key whose outcome is unknown.
func unknown(t testing.TB, kind testserver.Effect) (*testserver.Guard, *effect) {
	t.Helper()
	e := new(effect)
	g := guard(e)
	g.Effect, g.DownstreamRetention, g.Deadline = kind, time.Hour, time.Minute
	e.do = func(w http.ResponseWriter, r *http.Request) {
		if e.runs.Load() == 1 {
			start(r)
			downstream(r)
			panic("a bug")
		}
		w.WriteHeader(201)
	}
	require.Error(t, do(g, request("k", "")).err)
	if kind == testserver.Keyed {
		time.Sleep(2 * time.Hour)
	}
	do(g, request("k", "")).is(t, 409, "outcome_unknown")
	return g, e
}

var answer = &testserver.Answer{Status: 201, Header: []testserver.Field{{Name: "Location", Value: "/thing/1"}, {Name: "Set-Cookie", Value: "a=1"}}, Body: []byte("found")}

// servers.md B48: what turns out later is told, and nothing that may have happened runs again.
func TestResolve(t *testing.T) {
	for name, kind := range kinds {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				g, _ := unknown(t, kind)
				require.NoError(t, g.Resolve(t.Context(), id("k"), answer))
				got := do(g, request("k", ""))
				require.Equal(t, 201, got.status)
				require.Equal(t, "found", got.body)
				require.Equal(t, "/thing/1", got.header.Get("Location"))
				require.NotContains(t, got.header, "Set-Cookie")
				require.True(t, got.replayed())
				require.NoError(t, g.Resolve(t.Context(), id("k"), answer), "again, the same")
				require.ErrorIs(t, g.Resolve(t.Context(), id("k"), &testserver.Answer{Status: 500}), testserver.ErrLost)

				g, _ = unknown(t, kind)
				require.NoError(t, g.Resolve(t.Context(), id("k"), &testserver.Answer{Header: answer.Header}))
				got = do(g, request("k", ""))
				got.is(t, 410, "response_not_retained")
				require.Equal(t, "/thing/1", got.header.Get("Location"))
				require.NotContains(t, got.body, "original_status")

				g, e := unknown(t, kind)
				err := g.Resolve(t.Context(), id("k"), nil)
				if kind != testserver.Keyed {
					require.ErrorIs(t, err, testserver.ErrStarted)
					do(g, request("k", "")).is(t, 409, "outcome_unknown")
					require.EqualValues(t, 1, e.runs.Load())
					return
				}
				require.NoError(t, err)
				require.Equal(t, 201, do(g, request("k", "")).status)
				require.EqualValues(t, 2, e.runs.Load())
			})
		})
	}
}

func TestWhatCannotBeResolved(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var told error
		store := flaky()
		g := guard(&effect{do: works(5*time.Second, &told)})
		g.Store = store
		require.ErrorIs(t, g.Resolve(t.Context(), id("k"), answer), testserver.ErrLost, "there is nothing")
		first := make(chan reply)
		go func() { first <- do(g, request("k", "")) }()
		synctest.Wait()
		require.ErrorIs(t, g.Resolve(t.Context(), id("k"), answer), testserver.ErrBusy, "its owner lives")
		store.fail(store.before, "Look", 1)
		require.ErrorIs(t, g.Resolve(t.Context(), id("k"), answer), errDown)
		require.Equal(t, 201, (<-first).status)
		require.ErrorIs(t, g.Resolve(t.Context(), id("k"), answer), testserver.ErrLost, "it has an end")
	})
}

// Its owner died, and nobody has asked since.
func TestResolveADeadOwnersKey(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := guard(new(effect))
		g.Fault = testserver.At(testserver.AfterEffect, 1, testserver.Crash)
		require.Error(t, do(g, request("k", "")).err)
		time.Sleep(11 * time.Second)
		require.NoError(t, g.Resolve(t.Context(), id("k"), answer))
		require.Equal(t, "found", do(g, request("k", "")).body)
	})
}

// The handler was only slow: somebody resolved its key, and its client gets what everybody else gets.
func TestALateOwnerAnswersWithWhatWasResolved(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := guard(new(effect))
		g.Fault = testserver.At(testserver.AfterEffect, 1, testserver.Freeze(time.Minute))
		first := make(chan reply)
		go func() { first <- do(g, request("k", "")) }()
		time.Sleep(30 * time.Second)
		require.NoError(t, g.Resolve(t.Context(), id("k"), answer))
		got := <-first
		require.Equal(t, "found", got.body)
		require.True(t, got.replayed())
	})
}

// In a kind that nobody may run again, the handler goes on even if somebody resolves its key meanwhile.
func TestAHandlerIsNotStoppedByAResolution(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var told error
		store := flaky()
		g := guard(&effect{do: works(50*time.Second, &told)})
		g.Store = store
		first := make(chan reply)
		go func() { first <- do(g, request("k", "")) }()
		synctest.Wait()
		store.fail(store.before, "Renew", 1<<30)
		time.Sleep(11 * time.Second)
		require.NoError(t, g.Resolve(t.Context(), id("k"), answer))
		store.fail(store.before, "Renew", 0)
		require.Equal(t, "found", (<-first).body)
		require.NoError(t, told)
	})
}

func TestRecover(t *testing.T) {
	for _, tt := range []struct {
		name   string
		kind   testserver.Effect
		answer *testserver.Answer
		err    error
		status int
		runs   int64
	}{
		{"done", testserver.Once, answer, nil, 201, 1},
		{"done, keyed", testserver.Keyed, answer, nil, 201, 1},
		{"done, without the answer", testserver.Once, &testserver.Answer{}, nil, 410, 1},
		{"still unknown", testserver.Once, nil, nil, 409, 1},
		{"cannot be asked", testserver.Once, nil, errors.New("down"), 409, 1},
		{"an error beats an answer", testserver.Once, answer, errors.New("down"), 409, 1},
		{"not done, which once cannot prove", testserver.Once, nil, testserver.ErrNotDone, 409, 1},
		{"not done, which marked cannot prove", testserver.Marked, nil, testserver.ErrNotDone, 409, 1},
		{"not done, where the downstream would know the key", testserver.Keyed, nil, testserver.ErrNotDone, 201, 2},
	} {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				g, e := unknown(t, tt.kind)
				asked := 0
				g.Recover = func(r *http.Request, rec testserver.Record) (*testserver.Answer, error) {
					asked++
					end, limited := r.Context().Deadline()
					require.True(t, limited && time.Until(end) == g.Deadline, "asking takes no longer than the handler may")
					require.Equal(t, testserver.Unknown, rec.State)
					_, err := testserver.DownstreamKey(r.Context(), "psp", "charge")
					require.NoError(t, err)
					return tt.answer, tt.err
				}
				do(g, request("k", "other")).is(t, 422, "key_reused")
				require.Zero(t, asked)
				got := do(g, request("k", ""))
				require.Equal(t, tt.status, got.status)
				require.Equal(t, tt.runs, e.runs.Load())
				require.Equal(t, 1, asked)
				if tt.status == 409 {
					got.is(t, 409, "outcome_unknown")
					return
				}
				require.Equal(t, tt.status, do(g, request("k", "")).status)
				require.Equal(t, 1, asked, "what is known is not asked for")
			})
		})
	}
}

func TestRecoverWhenTheStoreFails(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g, e := unknown(t, testserver.Once)
		store := flaky()
		store.Store, g.Store = g.Store, store
		g.Recover = func(*http.Request, testserver.Record) (*testserver.Answer, error) { return answer, nil }
		store.fail(store.before, "Settle", 1)
		do(g, request("k", "")).is(t, 409, "outcome_unknown")
		require.Equal(t, 201, do(g, request("k", "")).status)
		require.EqualValues(t, 1, e.runs.Load())
	})
}
