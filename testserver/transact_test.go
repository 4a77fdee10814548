package testserver_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/semel-go/semel/testserver"
)

// transactional is a bank in memory whose transfers commit with their keys.
func transactional(faults ...testserver.Fault) *testserver.Server {
	s := testserver.New(faults...)
	s.Guard.Effect = testserver.Transactional
	return s
}

// S9's promises, as far as they do not need a database. servers.md B11; faults.md 23.
func TestATransactionKeepsEffectKeyAndAnswerTogether(t *testing.T) {
	for _, tt := range []struct {
		name   string
		fault  testserver.Fault
		body   string
		first  int // 0: no reply
		moved  int // by the first
		second int
		replay bool
	}{
		{"done", nil, transfer, 201, 1, 201, true},
		{"refused: the effect is rolled back, the answer kept", nil, strings.Replace(transfer, "100", "1001", 1), 402, 0, 402, true},
		{"the reply is lost", testserver.LoseReply(1), transfer, 0, 1, 201, true},
		{"the reply is cut", testserver.At(testserver.InReply, 1, testserver.Cut(7)), transfer, 0, 1, 201, true},
		{"a crash before the claim", testserver.At(testserver.BeforeClaim, 1, testserver.Crash), transfer, 0, 0, 201, false},
		{"a crash after the claim", testserver.At(testserver.AfterClaim, 1, testserver.Crash), transfer, 0, 0, 201, false},
		{"a crash after the effect", testserver.At(testserver.AfterEffect, 1, testserver.Crash), transfer, 0, 0, 201, false},
		{"a crash after the commit", testserver.At(testserver.AfterSettle, 1, testserver.Crash), transfer, 0, 1, 201, true},
		{"an abort after the effect", testserver.At(testserver.AfterEffect, 1, testserver.Abort), transfer, 0, 0, 201, false},
		{"500 after the effect", testserver.At(testserver.AfterEffect, 1, testserver.Status(500, 0)), transfer, 500, 0, 201, false},
		{"429 after the effect", testserver.At(testserver.AfterEffect, 1, testserver.Status(429, time.Second)), transfer, 429, 0, 201, false},
		{"409 after the effect", testserver.At(testserver.AfterEffect, 1, testserver.Status(409, 0)), transfer, 409, 0, 409, true},
		{"503 before the claim", testserver.At(testserver.BeforeClaim, 1, testserver.Status(503, time.Second)), transfer, 503, 0, 201, false},
	} {
		t.Run(tt.name, func(t *testing.T) {
			s := transactional(tt.fault)
			first := do(s.Handler(), request("k", tt.body))
			require.Equal(t, tt.first, first.status)
			require.Equal(t, tt.moved, s.Bank.Effects("k"))
			second := do(s.Handler(), request("k", tt.body))
			require.Equal(t, tt.second, second.status, second.body)
			require.Equal(t, tt.replay, second.replayed())
			if tt.replay && tt.first != 0 {
				require.Equal(t, first.body, second.body)
			}
			want := 0
			if tt.second == 201 {
				want = 1
			}
			require.Equal(t, want, s.Bank.Effects("k"))
			require.EqualValues(t, 2000, s.Bank.Total())
			do(s.Handler(), request("k", `{"from":"bob","to":"alice","amount":1}`)).is(t, 422, "key_reused")
			require.NoError(t, s.Guard.Drain(t.Context()))
		})
	}
}

func TestATransactionalReplyThatCannotBeHeldBack(t *testing.T) {
	for name, h := range map[string]http.HandlerFunc{
		"flushed":    func(w http.ResponseWriter, _ *http.Request) { w.(http.Flusher).Flush() },
		"controller": func(w http.ResponseWriter, _ *http.Request) { require.Error(t, http.NewResponseController(w).Flush()) },
		"too large":  func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, strings.Repeat("x", 101)) },
		"hijacked": func(w http.ResponseWriter, _ *http.Request) {
			_, _, err := http.NewResponseController(w).Hijack()
			require.Error(t, err)
		},
		"broken off": func(w http.ResponseWriter, _ *http.Request) { w.Header().Set("Content-Length", "5") },
		"trailers":   func(w http.ResponseWriter, _ *http.Request) { w.Header().Set("Trailer", "X") },
	} {
		t.Run(name, func(t *testing.T) {
			s := transactional()
			bank := s.Bank
			s.Guard.MaxReply = 100
			s.Guard.Next = http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				bank.ServeHTTP(discard{w}, r)
				h(w, r)
			})
			do(s.Guard, request("k", transfer)).is(t, 500, "reply_refused")
			require.Zero(t, bank.Effects("k"))
			s.Guard.Next = bank
			require.Equal(t, 201, do(s.Guard, request("k", transfer)).status)
		})
	}
}

// discard lets a handler work without a word.
type discard struct{ http.ResponseWriter }

func (discard) Header() http.Header         { return http.Header{} }
func (discard) Write(p []byte) (int, error) { return len(p), nil }
func (discard) WriteHeader(int)             {}

func TestAPanicRollsATransactionBack(t *testing.T) {
	s := transactional()
	bank := s.Bank
	s.Guard.Next = http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		bank.ServeHTTP(w, r)
		panic("after the effect")
	})
	require.Error(t, do(s.Guard, request("k", transfer)).err)
	require.Zero(t, bank.Effects("k"))
	s.Guard.Next = bank
	require.Equal(t, 201, do(s.Guard, request("k", transfer)).status)
	require.Equal(t, 1, bank.Effects("k"))
}

func TestTheSecondOfTwoTransactionsWithOneKey(t *testing.T) {
	for _, tt := range []struct {
		name   string
		at     testserver.Fault // of the first
		prefer string
		other  bool
		status int
		code   string
		after  time.Duration
	}{
		{"is told to come again", nil, "", false, 409, "in_progress", 0},
		{"waits for the answer", nil, "wait=9", false, 201, "", 5 * time.Second},
		{"does not wait longer than it likes", nil, "wait=2", false, 409, "in_progress", 2 * time.Second},
		{"sees another payload once the first is committed", nil, "wait=9", true, 422, "key_reused", 5 * time.Second},
		{"runs if the first rolls back", testserver.At(testserver.AfterEffect, 1, testserver.Crash), "wait=9", false, 201, "", 5 * time.Second},
	} {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				faults := []testserver.Fault{testserver.At(testserver.AfterClaim, 1, testserver.Sleep(5*time.Second))}
				if tt.at != nil {
					faults = append(faults, tt.at)
				}
				s := transactional(faults...)
				go do(s.Handler(), request("k", transfer))
				synctest.Wait()
				begun, body := time.Now(), transfer
				if tt.other {
					body = strings.Replace(transfer, "100", "1", 1)
				}
				got := do(s.Handler(), request("k", body, "Prefer", tt.prefer))
				got.is(t, tt.status, tt.code)
				require.Equal(t, tt.after, time.Since(begun))
				time.Sleep(10 * time.Second)
				require.Equal(t, 1, s.Bank.Effects("k"))
			})
		})
	}
}

// Two transactions that both saw enough money: the later to commit is run again, on what is there now.
func TestTransactionsDoNotSpendTheSameMoney(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := transactional(testserver.At(testserver.AfterEffect, 0, testserver.Sleep(time.Second)))
		body := strings.Replace(transfer, "100", "600", 1)
		all := make(chan reply, 3)
		for i := range 3 {
			go func() { all <- do(s.Handler(), request(fmt.Sprint("k", i), body)) }()
		}
		count := map[int]int{}
		for range 3 {
			count[(<-all).status]++
		}
		require.Equal(t, map[int]int{201: 1, 402: 2}, count)
		require.EqualValues(t, 400, s.Bank.Balance("alice"))
		require.EqualValues(t, 2000, s.Bank.Total())
	})
}

// A database tells what memory never does.
func TestWhatATransactorReports(t *testing.T) {
	for _, tt := range []struct {
		err        error
		status     int
		code       string
		retryAfter string
	}{
		{testserver.ErrBusy, 409, "in_progress", "1"},
		{fmt.Errorf("commit: %w", testserver.ErrInDoubt), 503, "commit_in_doubt", "1"},
		{testserver.ErrFull, 503, "store_unavailable", "1"},
		{errors.New("secret"), 503, "store_unavailable", "1"},
	} {
		e := new(effect)
		g := guard(e)
		g.Store, g.Effect = failingTransactor{new(testserver.MemStore), tt.err}, testserver.Transactional
		got := do(g, request("k", ""))
		got.is(t, tt.status, tt.code)
		require.Equal(t, tt.retryAfter, got.header.Get("Retry-After"))
		require.NotContains(t, got.body, "secret")
	}
}

type failingTransactor struct {
	*testserver.MemStore
	err error
}

func (s failingTransactor) Transact(context.Context, testserver.Claim, time.Duration, func(context.Context) (*testserver.Answer, error)) (testserver.Record, error) {
	return testserver.Record{}, s.err
}

// A transaction that is run again starts from nothing: fresh recorder, whole body.
func TestATransactionThatIsRunAgainStartsAnew(t *testing.T) {
	n := 0
	e := &effect{do: func(w http.ResponseWriter, r *http.Request) {
		n++
		b, _ := io.ReadAll(r.Body)
		w.Header().Add("X-Run", fmt.Sprint(n))
		w.WriteHeader(200 + n)
		_, _ = w.Write(b)
	}}
	g := guard(e)
	g.Store, g.Effect = restarting{new(testserver.MemStore)}, testserver.Transactional
	got := do(g, request("k", "body"))
	require.Equal(t, 202, got.status)
	require.Equal(t, []string{"2"}, got.header["X-Run"])
	require.Equal(t, "body", got.body)
	require.Equal(t, "body", do(g, request("k", "body")).body)
}

// restarting runs the work of a transaction twice, as after a serialization failure.
type restarting struct{ *testserver.MemStore }

func (s restarting) Transact(ctx context.Context, c testserver.Claim, wait time.Duration, work func(context.Context) (*testserver.Answer, error)) (testserver.Record, error) {
	return s.MemStore.Transact(ctx, c, wait, func(ctx context.Context) (*testserver.Answer, error) {
		if _, err := work(ctx); err != nil {
			return nil, err
		}
		return work(ctx)
	})
}

func TestTransactionsUnderOneKeyAtOnce(t *testing.T) {
	for _, n := range []int{2, 10, 100} {
		s := transactional()
		var all sync.WaitGroup
		ready := make(chan struct{})
		for range n {
			all.Go(func() {
				<-ready
				got := do(s.Handler(), request("k", transfer))
				if got.status != 201 {
					require.Equal(t, "in_progress", got.code())
				}
			})
		}
		close(ready)
		all.Wait()
		require.Equal(t, 1, s.Bank.Effects("k"))
	}
}

func TestATransactionsContextEndsAtTheDeadline(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var left time.Duration
		g := guard(&effect{do: func(w http.ResponseWriter, r *http.Request) {
			end, _ := r.Context().Deadline()
			left = time.Until(end)
		}})
		g.Effect, g.Deadline = testserver.Transactional, 7*time.Second
		require.Equal(t, 200, do(g, request("k", "")).status)
		require.Equal(t, g.Deadline, left)
	})
}
