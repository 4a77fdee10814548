package testserver_test

import (
	"context"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/semel-go/semel/testserver"
)

// servers.md B14: whether the effect had left decides, and not whether somebody gave up.
func TestADeadlineBeforeAndAfterTheMark(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var marked error
		queued := true
		e := &effect{do: func(w http.ResponseWriter, r *http.Request) {
			if queued {
				<-r.Context().Done()
			}
			if marked = testserver.EffectStarting(r.Context()); marked != nil {
				w.WriteHeader(503)
				return
			}
			<-r.Context().Done()
			w.WriteHeader(504)
		}}
		g := guard(e)
		g.Effect = testserver.Marked
		require.Equal(t, 503, do(g, request("k", "")).status)
		require.ErrorIs(t, marked, context.DeadlineExceeded, "an effect must not start when its time is over")
		queued = false
		require.Equal(t, 504, do(g, request("k", "")).status)
		require.True(t, do(g, request("k", "")).replayed())
		require.EqualValues(t, 2, e.runs.Load())
	})
}

// A store one of whose calls does not return until its context ends.
type hangingStore struct {
	testserver.Store
	method string
}

func (s hangingStore) hang(ctx context.Context, method string) error {
	if s.method != method {
		return nil
	}
	<-ctx.Done()
	return ctx.Err()
}

func (s hangingStore) Claim(ctx context.Context, c testserver.Claim) (testserver.Record, error) {
	if err := s.hang(ctx, "Claim"); err != nil {
		return testserver.Record{}, err
	}
	return s.Store.Claim(ctx, c)
}

func (s hangingStore) Settle(ctx context.Context, h testserver.Hold, e testserver.Settlement) error {
	if err := s.hang(ctx, "Settle"); err != nil {
		return err
	}
	return s.Store.Settle(ctx, h, e)
}

func (s hangingStore) Renew(ctx context.Context, lease time.Duration, holds []testserver.Hold) ([]testserver.Renewal, error) {
	if err := s.hang(ctx, "Renew"); err != nil {
		return nil, err
	}
	return s.Store.Renew(ctx, lease, holds)
}

func (s hangingStore) Wait(ctx context.Context, id testserver.ID) error {
	if err := s.hang(ctx, "Wait"); err != nil {
		return err
	}
	return s.Store.Wait(ctx, id)
}

func TestAStoreThatDoesNotAnswer(t *testing.T) {
	for _, tt := range []struct {
		method string
		status int
		within time.Duration
	}{
		{"Claim", 503, 2 * time.Second},
		{"Settle", 201, 5 * time.Second}, // the answer is due
		{"Wait", 201, 0},
	} {
		t.Run(tt.method, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				e := new(effect)
				g := guard(e)
				g.Store = hangingStore{g.Store, tt.method}
				begun := time.Now()
				require.Equal(t, tt.status, do(g, request("k", "")).status)
				require.Equal(t, tt.within, time.Since(begun))
				require.NoError(t, g.Drain(t.Context()))
			})
		})
	}
}

// A store that does not answer renewals must not keep an owner believing in its lease.
func TestARenewalThatHangs(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var told error
		begun := time.Now()
		e := &effect{do: works(time.Hour, &told)}
		g := guard(e)
		g.Store, g.Effect = hangingStore{g.Store, "Renew"}, testserver.Marked
		require.Equal(t, 500, do(g, request("k", "")).status)
		require.Equal(t, testserver.ErrLeaseLost, told)
		require.Equal(t, 10*time.Second, time.Since(begun))
		time.Sleep(10 * time.Second)
	})
}

// The lost owner cannot even learn what is stored. It must not say what it believes.
func TestALostOwnerThatCannotLook(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e := new(effect)
		store := flaky()
		g := guard(e)
		g.Store, g.Effect, g.Fault = store, testserver.Marked, testserver.At(testserver.AfterEffect, 1, testserver.Freeze(time.Minute))
		first := make(chan reply)
		go func() { first <- do(g, request("k", "")) }()
		time.Sleep(30 * time.Second)
		require.Equal(t, 201, do(g, request("k", "")).status)
		store.fail(store.before, "Look", 1)
		got := <-first
		got.is(t, 409, "in_progress")
		require.NotEmpty(t, got.header.Get("Retry-After"))
	})
}

// It was freed by hand while its owner stalled, and another request has taken the key.
func TestALostOwnerWhoseKeyIsAnotherRequestsNow(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := guard(new(effect))
		g.Effect, g.Fault = testserver.Keyed, testserver.At(testserver.AfterEffect, 1, testserver.Freeze(time.Minute))
		first := make(chan reply)
		go func() { first <- do(g, request("k", "")) }()
		time.Sleep(30 * time.Second)
		require.NoError(t, g.Resolve(t.Context(), id("k"), nil))
		require.Equal(t, 201, do(g, request("k", "another")).status)
		(<-first).is(t, 409, "outcome_unknown")
	})
}

func TestABodyThatMiddlewareLimits(t *testing.T) {
	e := new(effect)
	h := http.MaxBytesHandler(guard(e), 10)
	r := request("k", strings.Repeat("x", 11))
	r.ContentLength = -1
	do(h, r).is(t, 413, "body_too_large")
	require.Zero(t, e.runs.Load())
}

// faults.md 54: a client's clock is not believed where that could do harm.
func TestTheClientsClock(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := guard(new(effect))
		for i, begun := range []string{"Fri, 01 Jan 2100 00:00:00 GMT", "yesterday", "", "946684800"} {
			key := string(rune('a' + i))
			require.Equal(t, 201, do(g, request(key, "", "Repeatability-First-Sent", begun)).status, begun)
		}
		do(g, request("old", "", "Repeatability-First-Sent", "Thu, 01 Jan 1970 00:00:00 GMT")).is(t, 412, "key_expired")
	})
}

// An old operation that the store still knows is answered as any other.
func TestAnOldOperationThatIsNotForgotten(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const old = "Sat, 01 Jan 2000 00:00:00 GMT"
		store := flaky()
		g := guard(new(effect))
		g.Store, g.Fault = store, testserver.At(testserver.AfterEffect, 1, testserver.Crash)
		require.Error(t, do(g, request("k", "", "Repeatability-First-Sent", old)).err)
		time.Sleep(100 * time.Hour)
		do(g, request("k", "", "Repeatability-First-Sent", old)).is(t, 409, "outcome_unknown")
		store.fail(store.before, "Look", 1)
		do(g, request("k", "", "Repeatability-First-Sent", old)).is(t, 503, "store_unavailable")
		require.NoError(t, g.Resolve(t.Context(), id("k"), &testserver.Answer{Status: 201}))
		require.True(t, do(g, request("k", "", "Repeatability-First-Sent", old)).replayed())
	})
}

// faults.md 55: what one version of the server has answered, the next one replays.
func TestARollingDeploymentDoesNotRenderAgain(t *testing.T) {
	old := guard(&effect{do: func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, `{"v":1}`) }})
	next := guard(&effect{do: func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, `{"version":2}`) }})
	next.Store = old.Store
	do(old, request("k", ""))
	require.Equal(t, `{"v":1}`, do(next, request("k", "")).body)
}

// A handler that was told its key can make its effect idempotent by that, so its record must outlive its failures.
func TestAHandlerThatKnowsItsKeyMayHaveStarted(t *testing.T) {
	e := &effect{do: func(w http.ResponseWriter, r *http.Request) {
		_, _ = testserver.HoldFrom(r.Context())
		w.WriteHeader(502)
	}}
	g := guard(e)
	g.Effect = testserver.Keyed
	require.Equal(t, 502, do(g, request("k", "")).status)
	require.Equal(t, testserver.Pending, state(t, g, "k"))
}

// A slow upload claims nothing, and neither does one that is cut. faults.md 7, 8.
func TestAnUploadThatIsCutClaimsNothing(t *testing.T) {
	e := new(effect)
	g := guard(e)
	s := httptest.NewServer(g)
	defer s.Close()
	body, feed := io.Pipe()
	req, err := http.NewRequest("POST", s.URL, body)
	require.NoError(t, err)
	req.Header.Set("Idempotency-Key", "k")
	go func() {
		_, _ = io.WriteString(feed, "half")
		_ = feed.CloseWithError(errors.New("cut"))
	}()
	require.Error(t, read(s.Client().Do(req)).err)
	s.Close() // waits for the handler
	require.Zero(t, e.runs.Load())
	require.Equal(t, testserver.Free, state(t, g, "k"))
}

func TestARefusalByTheHandlerOnceIsAnAnswer(t *testing.T) {
	e := &effect{do: func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("WWW-Authenticate", "Bearer")
		w.WriteHeader(401)
	}}
	g := guard(e)
	require.Equal(t, "Bearer", do(g, request("k", "")).header.Get("WWW-Authenticate"))
	again := do(g, request("k", ""))
	require.Equal(t, 401, again.status)
	require.Empty(t, again.header.Get("WWW-Authenticate"))
}
