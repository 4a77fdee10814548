package findings

import (
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"sync"
	"testing"

	fiberv2 "github.com/gofiber/fiber/v2"
	idempotencyv2 "github.com/gofiber/fiber/v2/middleware/idempotency"
	fiberv3 "github.com/gofiber/fiber/v3"
	idempotencyv3 "github.com/gofiber/fiber/v3/middleware/idempotency"
	"github.com/moov-io/base/idempotent"
	"github.com/moov-io/base/idempotent/lru"
	"github.com/stretchr/testify/require"

	"github.com/semel-go/semel/semeltest"
)

// effects counts how often each operation took effect.
type effects struct {
	mu sync.Mutex
	of map[int]int
}

type operation struct {
	Operation int `json:"operation"`
}

// happen is what the handler of every server does: one effect, and an answer that tells which.
func (e *effects) happen(body []byte) (answer string, err error) {
	var op operation
	if err := json.Unmarshal(body, &op); err != nil {
		return "", err
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.of == nil {
		e.of = map[int]int{}
	}
	e.of[op.Operation]++
	return fmt.Sprintf(`{"operation":%d,"effect":%d}`, op.Operation, e.of[op.Operation]), nil
}

func (e *effects) count(n int) int {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.of[n]
}

// server runs the kit against a live server on loopback. Serve serves until the listener is closed.
func server(serve func(l net.Listener, e *effects) error, rules semeltest.Rules) func(*testing.T) {
	return func(t *testing.T) {
		semeltest.TestServer(t, func(t *testing.T) semeltest.Server {
			l, err := net.Listen("tcp", "127.0.0.1:0")
			require.NoError(t, err)
			t.Cleanup(func() { l.Close() })
			e := new(effects)
			go serve(l, e)
			return semeltest.Server{
				URL: "http://" + l.Addr().String(),
				Request: func(n int) *http.Request {
					req, err := http.NewRequest("POST", "/operations", strings.NewReader(fmt.Sprintf(`{"operation":%d}`, n)))
					require.NoError(t, err)
					req.Header.Set("Content-Type", "application/json")
					return req
				},
				Effects: e.count,
				As: func(r *http.Request, principal int) {
					r.Header.Set("Authorization", fmt.Sprintf("Bearer principal-%d", principal))
				},
				Rules: rules,
			}
		})
	}
}

// fiberRules: a replay has no mark, and a request without a key passes.
var fiberRules = semeltest.Rules{Replayed: "-", Status: map[string]int{"key_missing": -1}}

// moovRules: a key that was seen before is answered 412, whether or not its operation goes on.
var moovRules = semeltest.Rules{Header: idempotent.HeaderKey, Replayed: "-", Status: map[string]int{"key_missing": -1, "in_progress": 412, "key_reused": 412}}

func moov(l net.Listener, e *effects) error {
	seen := lru.New()
	return http.Serve(l, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if _, before := idempotent.FromRequest(r, seen); before {
			idempotent.SeenBefore(w)
			return
		}
		body, err := io.ReadAll(r.Body)
		if err != nil {
			http.Error(w, err.Error(), http.StatusBadRequest)
			return
		}
		answer, err := e.happen(body)
		if err != nil {
			http.Error(w, err.Error(), http.StatusBadRequest)
			return
		}
		w.Header().Set("Content-Type", "application/json")
		w.WriteHeader(http.StatusCreated)
		_, _ = io.WriteString(w, answer)
	}))
}

func anyKey(string) error { return nil }

func fiberV2(l net.Listener, e *effects) error {
	app := fiberv2.New(fiberv2.Config{DisableStartupMessage: true})
	app.Use(idempotencyv2.New(idempotencyv2.Config{KeyHeader: "Idempotency-Key", KeyHeaderValidate: anyKey}))
	app.Post("/operations", func(c *fiberv2.Ctx) error {
		answer, err := e.happen(c.Body())
		if err != nil {
			return fiberv2.NewError(400, err.Error())
		}
		c.Set("Content-Type", "application/json")
		return c.Status(201).SendString(answer)
	})
	return app.Listener(l)
}

func fiberV3(l net.Listener, e *effects) error {
	app := fiberv3.New()
	app.Use(idempotencyv3.New(idempotencyv3.Config{KeyHeader: "Idempotency-Key", KeyHeaderValidate: anyKey}))
	app.Post("/operations", func(c fiberv3.Ctx) error {
		answer, err := e.happen(c.Body())
		if err != nil {
			return fiberv3.NewError(400, err.Error())
		}
		c.Set("Content-Type", "application/json")
		return c.Status(201).SendString(answer)
	})
	return app.Listener(l, fiberv3.ListenConfig{DisableStartupMessage: true})
}
