package semeltest_test

import (
	"bytes"
	"context"
	"crypto/rand"
	"fmt"
	"io"
	"maps"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/semel-go/semel/semeltest"
	"github.com/semel-go/semel/testserver"
)

// A counter is a handler whose runs are its effects, one operation a path.
type counter struct {
	mu      sync.Mutex
	effects map[string]int
	total   int64
}

func (c *counter) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if testserver.EffectStarting(r.Context()) != nil {
		panic(http.ErrAbortHandler)
	}
	c.careless(w, r)
}

func (c *counter) count(path string) int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.effects[path]
}

// careless does not ask before it acts.
func (c *counter) careless(w http.ResponseWriter, r *http.Request) {
	c.mu.Lock()
	if c.effects == nil {
		c.effects = make(map[string]int)
	}
	c.effects[r.URL.Path]++
	c.mu.Unlock()
	w.Header().Set("Location", "/things/1")
	w.WriteHeader(http.StatusCreated)
	fmt.Fprintf(w, "{\"id\":%q}", rand.Text())
}

// A flawed server is a guard with a counter, and a defect in one of the two.
type flawed struct {
	counter
	guard   testserver.Guard
	handler http.Handler
	restart func() http.Handler
}

func newFlawed(change func(*flawed)) func(t *testing.T) semeltest.Server {
	return func(t *testing.T) semeltest.Server {
		f := new(flawed)
		f.guard = testserver.Guard{Next: &f.counter, Store: new(testserver.MemStore), Effect: testserver.Marked, Scope: principal}
		f.handler = &f.guard
		change(f)
		return semeltest.Server{
			Handler: f.handler,
			Request: func(n int) *http.Request {
				req, err := http.NewRequest("POST", fmt.Sprintf("http://api.test/things/%d", n), strings.NewReader(strings.Repeat("x", 500)))
				if err != nil {
					panic(err)
				}
				return req
			},
			Effects: func(n int) int { return f.count(fmt.Sprintf("/things/%d", n)) },
			Total:   func() int64 { f.mu.Lock(); defer f.mu.Unlock(); return f.total },
			As:      func(r *http.Request, who int) { r.Header.Set("Principal", fmt.Sprint(who)) },
			Points:  func(fault testserver.Fault) { f.guard.Fault = fault },
			Restart: f.restart,
			Lease:   15 * time.Second, Retention: 72 * time.Hour,
		}
	}
}

func principal(r *http.Request) (string, error) { return "principal " + r.Header.Get("Principal"), nil }

// storing gives the server a store with a defect.
func storing(store func() *badStore) func(*flawed) {
	return func(f *flawed) { f.guard.Store = store() }
}

// before puts a defect in front of the guard.
func before(change func(http.ResponseWriter, *http.Request, http.Handler)) func(*flawed) {
	return func(f *flawed) {
		f.handler = http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { change(w, r, &f.guard) })
	}
}

// rerun is a store that takes no note of effects that have started.
func rerun() *badStore {
	return &badStore{renew: func(s *badStore, ctx context.Context, lease time.Duration, holds []testserver.Hold) ([]testserver.Renewal, error) {
		for i := range holds {
			holds[i].Started = false
		}
		return s.MemStore.Renew(ctx, lease, holds)
	}}
}

// badServers are defects, and the case that is there for each. S1 to S18 are those of faults.md 5.
var badServers = []struct {
	defect string
	caught string
	flaw   func(*flawed)
}{
	{"S1: it looks, then acts", "race/many first requests at once", storing(looksThenActs)},
	{"S1: it looks, then acts", "race/many first requests at once over HTTP2", storing(looksThenActs)},
	{"S1: it looks, then acts", "race/two first requests, many times", storing(looksThenActs)},
	{"S1: it looks, then acts", "race/the network doubles a request", storing(looksThenActs)},
	{"S2: the request is not compared", "key/another request is refused", storing(sameFingerprint)},
	{"S2: the request is not compared", "point/another request while one is in progress", storing(sameFingerprint)},
	{"S3: pending is read as done", "point/a duplicate of one in progress", storing(func() *badStore {
		return &badStore{claim: func(s *badStore, ctx context.Context, c testserver.Claim) (testserver.Record, error) {
			r, err := s.MemStore.Claim(ctx, c)
			if r.State == testserver.Pending && !r.HeldBy(c.Owner) {
				r.State, r.Answer = testserver.Completed, &testserver.Answer{Status: 200}
			}
			return r, err
		}}
	})},
	{"S4: answers are purged after an hour", "late/the answer is kept for its time", storing(kept(time.Hour))},
	{"S4: answers are purged at once", "late/a copy arrives after the answer", storing(kept(50 * time.Millisecond))},
	{"S5: a takeover while the owner runs", "lease/work that outlives it", func(f *flawed) {
		f.guard.Store = &badStore{renew: func(_ *badStore, _ context.Context, _ time.Duration, holds []testserver.Hold) ([]testserver.Renewal, error) {
			return make([]testserver.Renewal, len(holds)), nil
		}}
		f.guard.Next = http.HandlerFunc(f.careless)
	}},
	{"S6: an end without a fence", "lease/the server freezes before the effect", func(f *flawed) {
		f.guard.Store = unfenced()
		f.guard.Next = http.HandlerFunc(f.careless)
	}},
	{"S6: an end without a fence and a mark", "lease/the server freezes after the effect", func(f *flawed) {
		f.guard.Store = unfenced()
		f.guard.Next = http.HandlerFunc(f.careless)
	}},
	{"S7: nobody takes over", "point/the server dies at AfterClaim", storing(func() *badStore {
		return claiming(func(_ *badStore, c *testserver.Claim) { c.Lease = 1000 * time.Hour })
	})},
	{"S8: the effect is outside the transaction", "point/the server dies at AfterEffect", func(f *flawed) { f.guard.Effect = testserver.Transactional }},
	{"S8: the effect is outside the transaction", "point/the connection is cut at AfterEffect", func(f *flawed) { f.guard.Effect = testserver.Transactional }},
	{"S9: the answer is stored after the reply", "point/the server dies at AfterSettle", settlesLate},
	{"S9: the answer is stored after the reply", "point/the connection is cut at AfterSettle", settlesLate},
	{"S10: a failure leaves the claim", "point/500 before the effect leaves no claim", storing(func() *badStore {
		return &badStore{settle: func(s *badStore, ctx context.Context, h testserver.Hold, e testserver.Settlement) error {
			if e.State == testserver.Free {
				return nil
			}
			return s.MemStore.Settle(ctx, h, e)
		}}
	})},
	{"S10: a shed request leaves a claim", "point/503 before the claim leaves nothing", claimsFirst},
	{"S11: half a body is processed", "wire/the request's body is cut by RST", halfBodies},
	{"S11: half a body is processed", "wire/the request's body is cut by FIN", halfBodies},
	{"a body is waited for under the key", "wire/the request's body stalls", func(f *flawed) {
		locks := make(map[string]chan struct{})
		var mu sync.Mutex
		before(func(w http.ResponseWriter, r *http.Request, next http.Handler) {
			mu.Lock()
			lock := locks[r.Header.Get("Idempotency-Key")]
			if lock == nil {
				lock = make(chan struct{}, 1)
				locks[r.Header.Get("Idempotency-Key")] = lock
			}
			mu.Unlock()
			select {
			case lock <- struct{}{}:
				defer func() { <-lock }()
				next.ServeHTTP(w, r)
			case <-r.Context().Done():
			}
		})(f)
	}},
	{"S12: all keys are one", "key/two keys are two operations", before(func(w http.ResponseWriter, r *http.Request, next http.Handler) {
		r.Header.Set("Idempotency-Key", "one")
		next.ServeHTTP(w, r)
	})},
	{"S12: keys are folded", "key/two keys are two operations", before(func(w http.ResponseWriter, r *http.Request, next http.Handler) {
		r.Header.Set("Idempotency-Key", strings.ToLower(r.Header.Get("Idempotency-Key")))
		next.ServeHTTP(w, r)
	})},
	{"S12: keys have no scope", "key/it belongs to its principal", func(f *flawed) { f.guard.Scope = testserver.GlobalScope }},
	{"S13: a replay is rendered anew", "answer/a repeat gets the same", storing(func() *badStore {
		return answering(func(a *testserver.Answer) { a.Body = append(a.Body, '\n') })
	})},
	{"S14: a replay has another status", "answer/a repeat gets the same", storing(func() *badStore {
		return answering(func(a *testserver.Answer) { a.Status = 200 })
	})},
	{"S15: a replay has no body", "answer/a repeat gets the same over HTTP2", storing(func() *badStore {
		return answering(func(a *testserver.Answer) { a.Body = nil })
	})},
	{"a replay has lost a field", "answer/a repeat gets the same", storing(func() *badStore {
		return answering(func(a *testserver.Answer) { a.Header = a.Header[:1] })
	})},
	{"a replay is not marked", "answer/a repeat gets the same", before(func(w http.ResponseWriter, r *http.Request, next http.Handler) {
		next.ServeHTTP(&unmarked{w}, r)
	})},
	{"the reply has no end but the connection's", "answer/it is framed", before(func(w http.ResponseWriter, r *http.Request, next http.Handler) {
		kept := httptest.NewRecorder()
		next.ServeHTTP(kept, r)
		conn, _, err := http.NewResponseController(w).Hijack()
		if err != nil {
			panic(err)
		}
		fmt.Fprintf(conn, "HTTP/1.1 %d Created\r\nConnection: close\r\n\r\n%s", kept.Code, kept.Body)
		conn.Close()
	})},
	{"S16: a restart forgets", "late/a restart forgets nothing", func(f *flawed) {
		f.restart = func() http.Handler {
			reborn := testserver.Guard{Next: &f.counter, Store: new(testserver.MemStore), Effect: testserver.Marked, Scope: principal}
			return &reborn
		}
	}},
	{"S17: half an effect", "answer/a repeat gets the same", func(f *flawed) {
		f.guard.Next = http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			f.mu.Lock()
			f.total--
			f.mu.Unlock()
			f.counter.ServeHTTP(w, r)
		})
	}},
	{"S18: the work ends with the client", "point/the client leaves during the work", func(f *flawed) {
		clients := make(map[string]context.Context)
		var mu sync.Mutex
		f.guard.Store = &badStore{settle: func(s *badStore, ctx context.Context, h testserver.Hold, e testserver.Settlement) error {
			mu.Lock()
			client := clients[h.ID.Key]
			mu.Unlock()
			if client.Err() != nil {
				return testserver.ErrLost
			}
			return s.MemStore.Settle(ctx, h, e)
		}}
		before(func(w http.ResponseWriter, r *http.Request, next http.Handler) {
			mu.Lock()
			if clients[r.Header.Get("Idempotency-Key")] == nil {
				clients[r.Header.Get("Idempotency-Key")] = r.Context()
			}
			mu.Unlock()
			next.ServeHTTP(w, r)
		})(f)
	}},
	{"a lost reply is never had again", "wire/the reply is lost", forgetful},
	{"a lost reply is never had again", "wire/the reply is lost over HTTP2", forgetful},
	{"a lost reply is never had again", "wire/three replies are lost", forgetful},
	{"keys are optional", "key/a request without one is refused", func(f *flawed) { f.guard.Optional = true }},
	{"an empty key is none", "key/an empty one is refused", func(f *flawed) {
		f.guard.Optional = true
		before(func(w http.ResponseWriter, r *http.Request, next http.Handler) {
			if r.Header.Get("Idempotency-Key") == "" {
				r.Header.Del("Idempotency-Key")
			}
			next.ServeHTTP(w, r)
		})(f)
	}},
	{"the first of two keys counts", "key/two at once are refused", before(func(w http.ResponseWriter, r *http.Request, next http.Handler) {
		r.Header.Set("Idempotency-Key", r.Header.Get("Idempotency-Key"))
		next.ServeHTTP(w, r)
	})},
	{"a failure after the effect frees the key", "point/500 after the effect is not run again", func(f *flawed) {
		f.guard.Store = rerun()
		f.guard.Next = http.HandlerFunc(f.careless)
	}},
	{"what was started is run again", "point/the server dies at AfterEffect", storing(rerun)},
	{"everything at once", "storm/seed 1", storing(looksThenActs)},
}

func looksThenActs() *badStore {
	return &badStore{claim: func(s *badStore, ctx context.Context, c testserver.Claim) (testserver.Record, error) {
		before, _ := s.MemStore.Look(ctx, c.ID)
		time.Sleep(time.Millisecond)
		if r, err := s.MemStore.Claim(ctx, c); before.State != testserver.Free || r.HeldBy(c.Owner) {
			return r, err
		}
		return testserver.Record{ID: c.ID, State: testserver.Pending, Owner: c.Owner, Fence: 1, Left: c.Lease}, nil
	}, renew: func(_ *badStore, _ context.Context, _ time.Duration, holds []testserver.Hold) ([]testserver.Renewal, error) {
		return make([]testserver.Renewal, len(holds)), nil
	}, settle: func(s *badStore, ctx context.Context, h testserver.Hold, e testserver.Settlement) error {
		_ = s.MemStore.Settle(ctx, h, e)
		return nil
	}}
}

func sameFingerprint() *badStore {
	return claiming(func(_ *badStore, c *testserver.Claim) { c.Fingerprint = testserver.Fingerprint{} })
}

func kept(retention time.Duration) func() *badStore {
	return func() *badStore {
		return claiming(func(_ *badStore, c *testserver.Claim) { c.Retention = retention })
	}
}

// unfenced lets everybody settle and renew what somebody holds.
func unfenced() *badStore {
	return settling(func(s *badStore, h *testserver.Hold, _ *testserver.Settlement) {
		if r, _ := s.MemStore.Look(context.Background(), h.ID); r.State == testserver.Pending {
			*h = r.Hold()
		}
	})
}

// settlesLate stores answers when the reply has left, if it has. Nothing notes that the effect has started.
func settlesLate(f *flawed) {
	pending := make(map[string]func())
	var mu sync.Mutex
	store := rerun()
	store.settle = func(s *badStore, ctx context.Context, h testserver.Hold, e testserver.Settlement) error {
		mu.Lock()
		defer mu.Unlock()
		pending[h.ID.Key] = func() { _ = s.MemStore.Settle(context.Background(), h, e) }
		return nil
	}
	f.guard.Store = store
	before(func(w http.ResponseWriter, r *http.Request, next http.Handler) {
		mu.Lock()
		delete(pending, r.Header.Get("Idempotency-Key")) // a reply that never left stores nothing
		mu.Unlock()
		next.ServeHTTP(w, r)
		mu.Lock()
		defer mu.Unlock()
		if settle := pending[r.Header.Get("Idempotency-Key")]; settle != nil {
			settle()
		}
	})(f)
}

// claimsFirst claims before it knows whether the request is let in.
func claimsFirst(f *flawed) {
	before(func(w http.ResponseWriter, r *http.Request, next http.Handler) {
		id := testserver.ID{Scope: "principal ", Key: r.Header.Get("Idempotency-Key")}
		_, _ = f.guard.Store.Claim(r.Context(), testserver.Claim{ID: id, Owner: testserver.NewOwner(), Lease: time.Hour, Retention: time.Hour})
		next.ServeHTTP(w, r)
	})(f)
}

// halfBodies takes whatever has arrived for the body.
func halfBodies(f *flawed) {
	before(func(w http.ResponseWriter, r *http.Request, next http.Handler) {
		body, _ := io.ReadAll(r.Body)
		r.Body, r.ContentLength = io.NopCloser(bytes.NewReader(body)), int64(len(body))
		next.ServeHTTP(w, r)
	})(f)
}

// forgetful runs everything, whatever its key.
func forgetful(f *flawed) { f.handler = &f.counter }

// An unmarked writer drops the mark of a replay.
type unmarked struct{ http.ResponseWriter }

func (u *unmarked) WriteHeader(status int) {
	maps.DeleteFunc(u.Header(), func(name string, _ []string) bool { return name == "Idempotent-Replayed" })
	u.ResponseWriter.WriteHeader(status)
}

func TestEachCaseCatchesItsBadServer(t *testing.T) {
	for _, bad := range badServers {
		t.Run(bad.defect+", "+bad.caught, func(t *testing.T) {
			require.NotNil(t, semeltest.ServerCase(t, bad.caught, newFlawed(bad.flaw)), "the case %q finds nothing", bad.caught)
		})
	}
	t.Run("and nothing in a good one", func(t *testing.T) { semeltest.TestServer(t, newFlawed(func(*flawed) {})) })
}
