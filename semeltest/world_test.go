package semeltest_test

import (
	"bytes"
	"context"
	"io"
	"net/http"
	"strings"
	"sync"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/semel-go/semel/semeltest"
	"github.com/semel-go/semel/testserver"
)

// A place is where a world is tried out: in memory or on sockets, with which protocol.
type place struct {
	name           string
	sockets, http2 bool
	scheme         string
}

var places = []place{
	{"in memory", false, false, "http"},
	{"in memory with TLS", false, false, "https"},
	{"in memory over HTTP/2", false, true, "https"},
	{"in memory over HTTP/2 without TLS", false, true, "http"},
	{"on sockets", true, false, "http"},
	{"on sockets with TLS", true, false, "https"},
	{"on sockets over HTTP/2", true, true, "https"},
}

// inWorld runs a test in the place, with the faults and a handler that counts its runs.
func inWorld(t *testing.T, p place, handler http.Handler, test func(t *testing.T, w *semeltest.World), faults ...semeltest.Fault) {
	run := func(t *testing.T) {
		w := &semeltest.World{Handler: handler, Faults: faults, HTTP2: p.http2, Sockets: p.sockets}
		defer func() {
			if t.Failed() {
				t.Log(w.History())
			}
		}()
		defer w.Close()
		test(t, w)
	}
	if p.sockets {
		run(t)
	} else {
		synctest.Test(t, run)
	}
}

// ask makes one attempt under the key. Its body cannot be rewound, so that net/http sends it once.
func ask(ctx context.Context, w *semeltest.World, scheme, key string, size int) (int, string, error) {
	req, err := http.NewRequestWithContext(ctx, "POST", scheme+"://api.test/things", strings.NewReader(strings.Repeat("b", size)))
	if err != nil {
		return 0, "", err
	}
	req.Header.Set("Idempotency-Key", key)
	req.GetBody = nil
	resp, err := w.RoundTrip(req)
	if err != nil {
		return 0, "", err
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(resp.Body)
	return resp.StatusCode, string(body), err
}

func kinds(w *semeltest.World, want semeltest.Kind) (n int) {
	for _, e := range w.History().Events() {
		if e.Kind == want {
			n++
		}
	}
	return n
}

// A sink answers what it got, if it got all of it.
type sink struct {
	mu            sync.Mutex
	whole, broken int
}

func (s *sink) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	b, err := io.ReadAll(r.Body)
	s.mu.Lock()
	defer s.mu.Unlock()
	if err != nil || int64(len(b)) != r.ContentLength {
		s.broken++
		panic(http.ErrAbortHandler)
	}
	s.whole++
	w.WriteHeader(http.StatusCreated)
	w.Write(bytes.ToUpper(b))
}

func TestFaultsHitTheirAttempt(t *testing.T) {
	for _, c := range []struct {
		fault semeltest.Fault
		fails bool  // attempt 2 does
		is    error // the error of attempt 2 matches, if not nil
		runs  int   // of the handler, in three attempts
	}{
		{fault: semeltest.NoDial(2), fails: true, is: syscall.ECONNREFUSED, runs: 2},
		{fault: semeltest.LoseReply(2), fails: true, is: syscall.ECONNRESET, runs: 3},
		{fault: semeltest.CutReply(2, 10, semeltest.RST), fails: true, runs: 3},
		{fault: semeltest.CutReply(2, 1100, semeltest.FIN), fails: true, runs: 3},
		{fault: semeltest.CutReply(2, 1_000_000, semeltest.FIN), runs: 3},
		{fault: semeltest.CutRequest(2, 20, semeltest.RST), fails: true, runs: 2},
		{fault: semeltest.CutRequest(2, 700, semeltest.RST), fails: true, runs: 2},
		{fault: semeltest.Twice(2), runs: 4},
		{fault: semeltest.Late(2, time.Millisecond), runs: 4},
	} {
		for _, p := range places {
			t.Run(c.fault.String()+" "+p.name, func(t *testing.T) {
				s := new(sink)
				inWorld(t, p, s, func(t *testing.T, w *semeltest.World) {
					for n := 1; n <= 3; n++ {
						status, body, err := ask(t.Context(), w, p.scheme, "k", 1000)
						if n == 2 && c.fails {
							require.Error(t, err)
							if c.is != nil {
								require.ErrorIs(t, err, c.is)
							}
							continue
						}
						require.NoError(t, err)
						require.Equal(t, http.StatusCreated, status)
						require.Equal(t, strings.Repeat("B", 1000), body)
					}
					time.Sleep(50 * time.Millisecond) // for the copies
					require.NoError(t, w.Close())
					require.Equal(t, c.runs, s.whole)
					require.Equal(t, 3, kinds(w, "attempt"))
				}, c.fault)
			})
		}
	}
}

func TestAStallLastsUntilTheClientGoes(t *testing.T) {
	for _, fault := range []semeltest.Fault{
		semeltest.CutReply(1, 0, semeltest.Stall), semeltest.CutReply(1, 1050, semeltest.Stall), semeltest.CutRequest(1, 500, semeltest.Stall),
		semeltest.CutRequest(1, 5, semeltest.Stall),
	} {
		for _, p := range places {
			t.Run(fault.String()+" "+p.name, func(t *testing.T) {
				patience := time.Hour
				if p.sockets {
					patience = 50 * time.Millisecond
				}
				inWorld(t, p, new(sink), func(t *testing.T, w *semeltest.World) {
					begun := time.Now()
					ctx, cancel := context.WithTimeout(t.Context(), patience)
					defer cancel()
					_, _, err := ask(ctx, w, p.scheme, "k", 1000)
					require.ErrorIs(t, err, context.DeadlineExceeded)
					require.GreaterOrEqual(t, time.Since(begun), patience)
				}, fault)
			})
		}
	}
}

func TestAttemptsAreCountedPerKey(t *testing.T) {
	s := new(sink)
	inWorld(t, places[0], s, func(t *testing.T, w *semeltest.World) {
		for _, key := range []string{"a", "b"} {
			_, _, err := ask(t.Context(), w, "http", key, 10)
			require.ErrorIs(t, err, syscall.ECONNRESET)
			_, _, err = ask(t.Context(), w, "http", key, 10)
			require.NoError(t, err)
		}
		_, _, err := ask(t.Context(), w, "http", "c", 10)
		require.ErrorIs(t, err, syscall.ECONNRESET)
		_, _, err = ask(t.Context(), w, "http", "c", 10)
		require.ErrorIs(t, err, syscall.ECONNREFUSED)
	}, semeltest.LoseReply(1), semeltest.On(3, semeltest.From(semeltest.NoDial(2))))
}

// faults.md 13: the second execution is net/http's, without a count or a wait.
func TestHiddenRepeatsAreSeen(t *testing.T) {
	s := new(sink)
	inWorld(t, places[0], s, func(t *testing.T, w *semeltest.World) {
		_, _, err := ask(t.Context(), w, "http", "a", 10)
		require.NoError(t, err)
		req, err := http.NewRequest("POST", "http://api.test/things", strings.NewReader("b"))
		require.NoError(t, err)
		req.Header.Set("Idempotency-Key", "b")
		resp, err := w.RoundTrip(req)
		require.NoError(t, err, "net/http has sent it again by itself")
		resp.Body.Close()
		require.Equal(t, 3, s.whole)
		require.Equal(t, 2, kinds(w, "attempt"))
		require.Equal(t, 3, kinds(w, "send"))
	}, semeltest.On(2, semeltest.LoseReply(1)))
}

func TestGatewaysAnswerInTheServersPlace(t *testing.T) {
	for _, p := range places {
		t.Run(p.name, func(t *testing.T) {
			s := new(sink)
			inWorld(t, p, s, func(t *testing.T, w *semeltest.World) {
				status, _, err := ask(t.Context(), w, p.scheme, "k", 10)
				require.NoError(t, err)
				require.Equal(t, http.StatusServiceUnavailable, status)
				status, _, err = ask(t.Context(), w, p.scheme, "k", 10)
				require.NoError(t, err)
				require.Equal(t, http.StatusCreated, status)
				require.Equal(t, 1, s.whole)
			}, semeltest.Reply(1, http.StatusServiceUnavailable, 2*time.Second))
		})
	}
}

func TestFaultsActAtTheGuardsPoints(t *testing.T) {
	bank := testserver.New()
	synctest.Test(t, func(t *testing.T) {
		w := &semeltest.World{Handler: bank.Handler(), Faults: []semeltest.Fault{semeltest.At(testserver.AfterSettle, 1, testserver.Abort)}}
		defer w.Close()
		bank.Guard.Fault = w.Visit
		post := func() (*http.Response, error) {
			req, err := http.NewRequest("POST", "http://bank/transfers", strings.NewReader(`{"from":"alice","to":"bob","amount":1}`))
			require.NoError(t, err)
			req.Header.Set("Idempotency-Key", "k")
			return w.RoundTrip(req)
		}
		_, err := post()
		require.ErrorIs(t, err, io.EOF)
		resp, err := post()
		require.NoError(t, err)
		resp.Body.Close()
		require.Equal(t, "true", resp.Header.Get("Idempotent-Replayed"))
		require.Equal(t, 1, bank.Bank.Effects("k"))
		require.Equal(t, 7, kinds(w, "point"))
	})
}

func TestSeedsRepeatThemselves(t *testing.T) {
	run := func(t *testing.T, seed uint64) (story []string) {
		inWorld(t, places[0], new(sink), func(t *testing.T, w *semeltest.World) {
			for range 20 {
				_, _, _ = ask(t.Context(), w, "http", "k", 100)
				time.Sleep(time.Second)
			}
			for _, e := range w.History().Events() {
				if e.Kind == "attempt" {
					story = append(story, e.Detail)
				}
			}
		}, semeltest.Seed(seed))
		return story
	}
	first := run(t, 7)
	require.Equal(t, first, run(t, 7))
	require.NotEqual(t, first, run(t, 8))
}
