package testserver_test

import (
	"context"
	"errors"
	"io"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/semel-go/semel/testserver"
)

// Each fault, over real connections: what the client sees, whether the money has moved by then, and what a repeat gets.
func TestFaults(t *testing.T) {
	const (
		claim, effect, settle = testserver.AfterClaim, testserver.AfterEffect, testserver.AfterSettle
		again                 = ""
	)
	at := testserver.At
	for _, tt := range []struct {
		name   string
		kind   testserver.Effect
		fault  testserver.Fault
		status int // 0: none
		moved  int
		repeat string // code; "": 201
	}{
		{"none", testserver.Once, nil, 201, 1, again},
		{"another attempt's", testserver.Once, testserver.LoseReply(3), 201, 1, again},
		{"the reply is lost, faults.md 32", testserver.Once, testserver.LoseReply(1), 0, 1, again},
		{"the reply is cut, faults.md 34", testserver.Once, at(testserver.InReply, 1, testserver.Cut(7)), 201, 1, again},
		{"the reply is cut before its body", testserver.Once, at(testserver.InReply, 1, testserver.Cut(0)), 201, 1, again},
		{"an abort within the reply", testserver.Once, at(testserver.InReply, 1, testserver.Abort), 201, 1, again},
		{"overload, faults.md 15", testserver.Once, at(testserver.BeforeClaim, 1, testserver.Status(503, time.Second)), 503, 0, again},
		{"throttled", testserver.Once, at(testserver.BeforeClaim, 1, testserver.Status(429, time.Second)), 429, 0, again},
		{"death before the claim, faults.md 16", testserver.Once, at(testserver.BeforeClaim, 1, testserver.Crash), 0, 0, again},
		{"death after the claim, faults.md 18", testserver.Once, at(claim, 1, testserver.Crash), 0, 0, "in_progress"},
		{"death after the effect, faults.md 24", testserver.Once, at(effect, 1, testserver.Crash), 0, 1, "in_progress"},
		{"death after it is stored", testserver.Once, at(settle, 1, testserver.Crash), 0, 1, again},
		{"an abort after the claim", testserver.Once, at(claim, 1, testserver.Abort), 0, 0, "outcome_unknown"},
		{"an abort after the claim, marked", testserver.Marked, at(claim, 1, testserver.Abort), 0, 0, again},
		{"an error before the effect, faults.md 19", testserver.Marked, at(claim, 1, testserver.Status(500, 0)), 500, 0, again},
		{"a refusal before the effect", testserver.Marked, at(claim, 1, testserver.Status(422, 0)), 422, 0, "fault"},
		{"an error after the effect", testserver.Marked, at(effect, 1, testserver.Status(500, 0)), 500, 1, "fault"},
		{"a gateway's 504, faults.md 22", testserver.Once, at(settle, 1, testserver.Status(504, 0)), 504, 1, again},
		{"slowness", testserver.Once, at(effect, 1, testserver.Sleep(20*time.Millisecond)), 201, 1, again},
		{"whatever else", testserver.Once, at(testserver.BeforeClaim, 1, func(context.Context, testserver.Visit) error { return errors.New("x") }), 500, 0, again},
	} {
		t.Run(tt.name, func(t *testing.T) {
			overBoth(t, func(t *testing.T, http2 bool) {
				s := testserver.New(tt.fault)
				s.Guard.Effect, s.TLS = tt.kind, http2
				require.NoError(t, s.Start())
				t.Cleanup(func() { require.NoError(t, s.Close()) })

				first := post(t, s, "k", transfer)
				require.Equal(t, tt.status, first.status)
				require.Equal(t, tt.moved, s.Bank.Effects("k"))
				if strings.Contains(tt.name, "cut") || strings.Contains(tt.name, "within") {
					require.Error(t, first.err, "the length is declared, so a cut is noticed")
				} else {
					require.Equal(t, tt.status == 0, first.err != nil)
				}
				if first.status >= 500 && strings.HasPrefix(tt.name, "overload") {
					require.Equal(t, "1", first.header.Get("Retry-After"))
				}
				repeat := post(t, s, "k", transfer)
				require.NoError(t, repeat.err)
				require.Equal(t, tt.repeat, repeat.code(), repeat.body)
				if tt.repeat == again {
					require.Equal(t, 201, repeat.status)
					require.Equal(t, tt.moved == 1, repeat.replayed())
					require.Equal(t, 1, s.Bank.Effects("k"))
				}
				require.EqualValues(t, 2000, s.Bank.Total())
			})
		})
	}
}

func TestACutLeavesTheBytesBeforeIt(t *testing.T) {
	s := testserver.Start(t, testserver.At(testserver.InReply, 2, testserver.Cut(7)))
	whole := post(t, s, "k", transfer)
	cut := post(t, s, "k", transfer)
	require.ErrorIs(t, cut.err, io.ErrUnexpectedEOF)
	require.Equal(t, whole.body[:7], cut.body)
}

func TestTheFirstFaultThatDoesSomethingCounts(t *testing.T) {
	s := testserver.New(testserver.At(testserver.BeforeClaim, 0, testserver.Sleep(0)),
		testserver.At(testserver.BeforeClaim, 1, testserver.Status(503, 0)), testserver.At(testserver.BeforeClaim, 1, testserver.Status(500, 0)))
	got := do(s.Handler(), request("k", transfer))
	got.is(t, 503, "fault")
	require.Empty(t, got.header.Get("Retry-After"))
	require.Equal(t, 503, do(s.Handler(), request("other", transfer)).status, "each key counts its own attempts")
	require.Equal(t, 201, do(s.Handler(), request("k", transfer)).status)
}

// faults.md 17, 42, 43: a duplicate at once, and a late one that nobody waits for.
func TestDuplicates(t *testing.T) {
	for _, late := range []time.Duration{0, time.Second, time.Hour} {
		synctest.Test(t, func(t *testing.T) {
			var arrived atomic.Int32
			s := testserver.New(testserver.At(testserver.BeforeClaim, 1, testserver.Twice(late)), func(_ context.Context, p testserver.Point, _ testserver.Visit) error {
				if p == testserver.BeforeClaim {
					arrived.Add(1)
				}
				return nil
			})
			got := do(s.Handler(), request("k", transfer))
			if got.status != 201 {
				got.is(t, 409, "in_progress") // the copy was first
			}
			require.NoError(t, s.Guard.Drain(t.Context()), "the copy has arrived")
			require.EqualValues(t, 2, arrived.Load())
			require.Equal(t, 1, s.Bank.Effects("k"))
			require.True(t, do(s.Handler(), request("k", transfer)).replayed())
		})
	}
	synctest.Test(t, func(t *testing.T) {
		s := testserver.New(testserver.At(testserver.BeforeClaim, 1, testserver.Twice(time.Second)), testserver.At(testserver.BeforeClaim, 0, testserver.Abort))
		require.Error(t, do(s.Handler(), request("k", transfer)).err)
		require.NoError(t, s.Guard.Drain(t.Context()))
		require.Zero(t, s.Bank.Effects("k"), "a copy meets faults as well")
	})
}

func TestHangIsSilentUntilTheClientLeaves(t *testing.T) {
	for p, moved := range map[testserver.Point]int{testserver.BeforeClaim: 0, testserver.AfterClaim: 0, testserver.AfterEffect: 1, testserver.AfterSettle: 1} {
		synctest.Test(t, func(t *testing.T) {
			s := testserver.New(testserver.At(p, 1, testserver.Hang))
			ctx, gone := context.WithTimeout(t.Context(), time.Minute)
			defer gone()
			begun := time.Now()
			require.Error(t, do(s.Handler(), request("k", transfer).WithContext(ctx)).err)
			require.Equal(t, time.Minute, time.Since(begun))
			require.Equal(t, moved, s.Bank.Effects("k"))
		})
	}
}

// A streamed reply is lost after its first bytes.
func TestLosingAReplyThatHasBegun(t *testing.T) {
	e := &effect{do: func(w http.ResponseWriter, _ *http.Request) {
		_, _ = io.WriteString(w, "begun")
		w.(http.Flusher).Flush()
	}}
	overBoth(t, func(t *testing.T, http2 bool) {
		for name, fault := range map[string]testserver.Fault{
			"lost": testserver.LoseReply(1), "status": testserver.At(testserver.AfterEffect, 1, testserver.Status(500, 0)),
			"after": testserver.At(testserver.AfterSettle, 1, testserver.Status(500, 0)),
		} {
			g := guard(e)
			g.Fault = fault
			post := serve(t, g, http2)
			got := post("k")
			require.Error(t, got.err, name)
			require.Equal(t, "begun", got.body, name)
		}
	})
}

// A fault of one's own can be tried without a guard.
func TestActionsNeedNoGuard(t *testing.T) {
	for name, do := range map[string]testserver.Action{"Freeze": testserver.Freeze(time.Second), "Twice": testserver.Twice(time.Second)} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				f := testserver.At(testserver.BeforeClaim, 1, do)
				require.NoError(t, f(t.Context(), testserver.BeforeClaim, testserver.Visit{Attempt: 1}))
			})
		})
	}
}
