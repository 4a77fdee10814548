package semel_test

import (
	"context"
	"encoding/json"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/semel-go/semel"
	"github.com/semel-go/semel/semeltest"
	"github.com/semel-go/semel/testserver"
)

// Client and server are built from the same wire contract and share no code. Here they meet.
func TestClientAndServerTogether(t *testing.T) {
	for name, effect := range map[string]testserver.Effect{
		"once":          testserver.Once,
		"marked":        testserver.Marked,
		"transactional": testserver.Transactional,
	} {
		t.Run(name, func(t *testing.T) {
			semeltest.TestTogether(t, func(t *testing.T, faults ...testserver.Fault) *testserver.Server {
				s := testserver.New(faults...)
				s.Guard.Effect = effect
				return s
			})
		})
	}
}

const transfer = `{"from":"alice","to":"bob","amount":100}`

// simulated runs the test with a server on a simulated network, in simulated time.
func simulated(t *testing.T, plan func(int) semeltest.Plan, test func(t *testing.T, s *testserver.Server, base *http.Transport), faults ...testserver.Fault) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		network := &semeltest.Network{Plan: plan}
		s := testserver.New(faults...)
		s.Listener = network.Listen()
		if !assertStarts(t, s) {
			return
		}
		base := &http.Transport{DialContext: network.DialContext}
		defer time.Sleep(time.Second)
		defer s.Close()
		defer base.CloseIdleConnections()
		test(t, s, base)
	})
}

func assertStarts(t *testing.T, s *testserver.Server) bool {
	t.Helper()
	if err := s.Start(); err != nil {
		t.Errorf("the server does not start: %v", err)
		return false
	}
	return true
}

func postTransfer(ctx context.Context, url string) *http.Request {
	r, _ := http.NewRequestWithContext(ctx, http.MethodPost, url, strings.NewReader(transfer))
	return r
}

func TestSimulatedTime(t *testing.T) {
	t.Run("a reply lost to a black hole costs one attempt timeout", func(t *testing.T) {
		stall := func(conn int) semeltest.Plan {
			if conn == 1 {
				return semeltest.Plan{Down: semeltest.Cut{After: 1, End: semeltest.Stall}}
			}
			return semeltest.Plan{}
		}
		simulated(t, stall, func(t *testing.T, s *testserver.Server, base *http.Transport) {
			op := semel.NewOperation("")
			start := time.Now()
			c := &semel.Client{HTTP: (&semel.Transport{Base: base}).Client()}
			resp, err := c.Do(postTransfer(op.Context(t.Context()), s.URL+"/transfers"))
			if err != nil {
				t.Error(err)
				return
			}
			resp.Body.Close()
			if took := time.Since(start); took < time.Minute || took > 62*time.Second {
				t.Errorf("it took %v", took)
			}
			if n := s.Bank.Effects(op.Key()); n != 1 || op.Outcome() != semel.Applied {
				t.Errorf("%d effects, the caller believes %v", n, op.Outcome())
			}
		})
	})
	t.Run("a key that the server will have forgotten is not sent again", func(t *testing.T) {
		simulated(t, nil, func(t *testing.T, s *testserver.Server, base *http.Transport) {
			d := semel.Dialect{Lifetime: 72 * time.Hour}
			c := &semel.Client{HTTP: (&semel.Transport{Base: base, Dialect: d}).Client()}
			op := semel.NewOperation("")
			resp, err := c.Do(postTransfer(op.Context(t.Context()), s.URL+"/transfers"))
			if err != nil {
				t.Error(err)
				return
			}
			resp.Body.Close()
			time.Sleep(72*time.Hour - 3*time.Minute)
			resp, err = c.Do(postTransfer(op.Context(t.Context()), s.URL+"/transfers"))
			if err != nil {
				t.Errorf("within its life: %v", err)
				return
			}
			if resp.Body.Close(); resp.Header.Get("Idempotent-Replayed") != "true" {
				t.Error("within its life the stored reply is replayed")
			}
			time.Sleep(90 * time.Second)
			saved, _ := json.Marshal(op)
			var restored semel.Operation
			_ = json.Unmarshal(saved, &restored)
			for _, op := range []*semel.Operation{op, &restored} {
				_, err = c.Do(postTransfer(op.Context(t.Context()), s.URL+"/transfers"))
				requireNoSend(t, err, semel.ErrLifetime)
			}
			if n := s.Bank.Effects(op.Key()); n != 1 {
				t.Errorf("%d effects", n)
			}
		})
	})
	t.Run("a server that stays overloaded gets the waits it asks for, and no more than the attempts", func(t *testing.T) {
		overloaded := testserver.At(testserver.BeforeClaim, 0, testserver.Status(503, 20*time.Second))
		simulated(t, nil, func(t *testing.T, s *testserver.Server, base *http.Transport) {
			start := time.Now()
			c := &semel.Client{HTTP: (&semel.Transport{Base: base}).Client()}
			_, err := c.Do(postTransfer(t.Context(), s.URL+"/transfers"))
			var e *semel.Error
			if !asError(t, err, &e) {
				return
			}
			if took := time.Since(start); e.Attempts != 4 || took < time.Minute || took > 61*time.Second {
				t.Errorf("%d attempts in %v", e.Attempts, took)
			}
		}, overloaded)
	})
}

func asError(t *testing.T, err error, e **semel.Error) bool {
	t.Helper()
	got, ok := err.(*semel.Error)
	if !ok {
		t.Errorf("%v is no *semel.Error", err)
		return false
	}
	*e = got
	return true
}

func requireNoSend(t *testing.T, err error, why error) {
	t.Helper()
	var e *semel.Error
	if asError(t, err, &e) {
		require.ErrorIs(t, err, why)
		require.Zero(t, e.Sends)
	}
}

// behind serves a front that redirects to the bank.
func behind(t *testing.T, status int, to string) (url string, keys *[]string) {
	t.Helper()
	keys = new([]string)
	l, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	front := &http.Server{Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		*keys = append(*keys, r.Header.Get("Idempotency-Key"))
		_, _ = io.Copy(io.Discard, r.Body)
		http.Redirect(w, r, to, status)
	})}
	go front.Serve(l)
	t.Cleanup(func() { front.Close() })
	return "http://" + l.Addr().String() + "/front", keys
}

func TestRedirects(t *testing.T) {
	for _, c := range []struct {
		name    string
		status  int
		to      string // below the bank
		faults  []testserver.Fault
		effects int
		outcome semel.Outcome
		err     error
	}{
		{"307 keeps the operation, and a reply that is lost after it is fetched again", 307, "/transfers", []testserver.Fault{testserver.LoseReply(1)}, 1, semel.Applied, nil},
		{"308 keeps the operation, and a reply that is lost after it is fetched again", 308, "/transfers", []testserver.Fault{testserver.LoseReply(1)}, 1, semel.Applied, nil},
		{"303 is the answer, and what follows is another request", 303, "/accounts/alice", nil, 0, semel.Applied, nil},
		{"303 is the answer even if nothing answers what follows", 303, "closed", nil, 0, semel.Applied, semel.Applied},
		{"307 to a server that is not there has had no effect", 307, "closed", nil, 0, semel.NotApplied, semel.NotApplied},
	} {
		t.Run(c.name, func(t *testing.T) {
			s := testserver.Start(t, c.faults...)
			to := s.URL + c.to
			if c.to == "closed" {
				to = "http://127.0.0.1:1/"
			}
			url, keys := behind(t, c.status, to)
			quick := func() semel.Backoff { return steady(time.Millisecond) }
			client := &semel.Client{HTTP: (&semel.Transport{Retry: semel.Policy{Backoff: quick}}).Client()}
			op := semel.NewOperation("")
			resp, err := client.Do(postTransfer(op.Context(t.Context()), url))
			if c.err == nil {
				require.NoError(t, err)
				require.NoError(t, resp.Body.Close())
			} else {
				require.ErrorIs(t, err, c.err)
			}
			require.Equal(t, c.outcome, op.Outcome())
			require.Equal(t, c.effects, s.Bank.Effects(op.Key()))
			require.Equal(t, []string{op.Key()}, *keys)
		})
	}
}

type steady time.Duration

func (s steady) NextBackOff() time.Duration { return time.Duration(s) }
