package testserver_test

import (
	"context"
	"fmt"
	"net/http"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/semel-go/semel/testserver"
)

// RFC 7240 section 4.3
func TestHowLongARequestWaits(t *testing.T) {
	for _, tt := range []struct {
		name   string
		prefer []string
		max    time.Duration
		waits  time.Duration // of the 5 seconds that the first attempt takes
	}{
		{"not at all by default", nil, 0, 0},
		{"as long as it prefers", []string{"wait=2"}, 0, 2 * time.Second},
		{"until the answer is there", []string{"wait=8"}, 0, 5 * time.Second},
		{"but not longer than the server likes", []string{"wait=600"}, 3 * time.Second, 3 * time.Second},
		{"a server that does not like it at all", []string{"wait=600"}, -1, 0},
		{"among other preferences", []string{"respond-async, wait=2; x=y, wait=4"}, 0, 2 * time.Second},
		{"in a field of its own", []string{"return=minimal", "Wait = 2"}, 0, 2 * time.Second},
		{"quoted", []string{`wait="2"`}, 0, 2 * time.Second},
		{"nonsense", []string{"wait=soon"}, 0, 0},
		{"negative", []string{"wait=-1"}, 0, 0},
		{"huge", []string{"wait=99999999999999999999"}, 0, 0},
		{"another name", []string{"await=2"}, 0, 0},
	} {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var told error
				e := &effect{do: works(5*time.Second, &told)}
				g := guard(e)
				g.MaxWait = tt.max
				go do(g, request("k", ""))
				synctest.Wait()
				begun := time.Now()
				r := request("k", "")
				r.Header["Prefer"] = tt.prefer
				got := do(g, r)
				require.InDelta(t, tt.waits.Seconds(), time.Since(begun).Seconds(), 0.01)
				require.Equal(t, tt.waits == 5*time.Second, got.replayed())
				if !got.replayed() {
					got.is(t, 409, "in_progress")
				}
				time.Sleep(10 * time.Second)
				require.EqualValues(t, 1, e.runs.Load())
			})
		})
	}
}

func TestAWaitingRequest(t *testing.T) {
	for _, tt := range []struct {
		name string
		kind testserver.Effect
		do   func(http.ResponseWriter, *http.Request) // of the first
		at   testserver.Fault
		got  func(*testing.T, reply)
		runs int64
	}{
		{"takes a key that is freed", testserver.Marked, func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(503) }, nil,
			func(t *testing.T, r reply) { require.Equal(t, 201, r.status); require.False(t, r.replayed()) }, 2},
		{"runs a keyed operation again that has failed", testserver.Keyed, func(w http.ResponseWriter, r *http.Request) { downstream(r); w.WriteHeader(503) }, nil,
			func(t *testing.T, r reply) { require.Equal(t, 201, r.status) }, 2},
		{"takes over from a dead owner", testserver.Marked, nil, testserver.At(testserver.AfterClaim, 1, testserver.Crash),
			func(t *testing.T, r reply) { require.Equal(t, 201, r.status) }, 1},
		{"learns that the outcome is unknown", testserver.Once, nil, testserver.At(testserver.AfterClaim, 1, testserver.Crash),
			func(t *testing.T, r reply) { r.is(t, 409, "outcome_unknown") }, 0},
		{"learns of a panic", testserver.Once, func(http.ResponseWriter, *http.Request) { panic("a bug") }, nil,
			func(t *testing.T, r reply) { r.is(t, 409, "outcome_unknown") }, 1},
	} {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				e := new(effect)
				e.do = func(w http.ResponseWriter, r *http.Request) {
					if e.runs.Load() == 1 && tt.do != nil {
						time.Sleep(time.Second)
						tt.do(w, r)
						return
					}
					w.WriteHeader(201)
				}
				g := guard(e)
				g.Effect, g.Fault, g.MaxWait = tt.kind, tt.at, time.Minute
				go do(g, request("k", ""))
				synctest.Wait()
				begun := time.Now()
				tt.got(t, do(g, request("k", "", "Prefer", "wait=30")))
				waited := 10 * time.Second // for a lease
				if tt.do != nil {
					waited = time.Second // for the first to end
				}
				require.InDelta(t, waited.Seconds(), time.Since(begun).Seconds(), 0.1)
				require.Equal(t, tt.runs, e.runs.Load())
			})
		})
	}
}

func TestAWaitingClientThatLeaves(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var told error
		g := guard(&effect{do: works(9*time.Second, &told)})
		go do(g, request("k", ""))
		synctest.Wait()
		ctx, gone := context.WithTimeout(t.Context(), time.Second)
		defer gone()
		begun := time.Now()
		do(g, request("k", "", "Prefer", "wait=8").WithContext(ctx)).is(t, 409, "in_progress")
		require.Equal(t, time.Second, time.Since(begun))
		time.Sleep(9 * time.Second)
	})
}

// A hot key: few may wait, the others are told to come again, and all wake at once.
func TestWaitersAreCapped(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var told error
		e := &effect{do: works(5*time.Second, &told)}
		g := guard(e)
		g.MaxWaiters = 3
		go do(g, request("k", ""))
		synctest.Wait()
		type timed struct {
			reply
			after time.Duration
		}
		all := make(chan timed, 100)
		begun := time.Now()
		for i := range 100 {
			go func() {
				r := do(g, request("k", "", "Prefer", "wait=9"))
				all <- timed{r, time.Since(begun)}
			}()
			go do(g, request(fmt.Sprint("other", i), "")) // nobody else's key waits for it
		}
		replayed := 0
		for range 100 {
			switch got := <-all; {
			case got.replayed():
				replayed++
				require.Equal(t, 5*time.Second, got.after)
			default:
				got.is(t, 409, "in_progress")
				require.Zero(t, got.after)
			}
		}
		require.Equal(t, 3, replayed)
		time.Sleep(time.Minute)
		require.EqualValues(t, 101, e.runs.Load())
	})
}
