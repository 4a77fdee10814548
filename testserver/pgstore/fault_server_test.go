//go:build unix

package pgstore_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"syscall"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/semel-go/semel/testserver"
	"github.com/semel-go/semel/testserver/pgstore"
)

// These headers are what a client asks a server process to suffer. They are no part of the operation.
const (
	killHeader = "Test-Kill" // a point, at which the process gets SIGKILL
	stopHeader = "Test-Stop" // a point, at which it gets SIGSTOP, until somebody lets it go on
	loseHeader = "Test-Lose" // the reply is lost once everything is done
	slowHeader = "Test-Slow" // a duration that the handler takes before its effect
)

// The points at which a server process can be killed.
const (
	beforeClaim = "before the claim"
	afterClaim  = "after the claim"
	afterMark   = "after the effect is marked"
	afterEffect = "after the effect"
	afterCommit = "after the commit"
)

// A transfer is the request's body.
type transfer struct {
	Op               string
	From, To, Amount int
	Careless         bool
}

// A receipt is the answer: it names the one effect that it belongs to.
type receipt struct{ Op, Receipt string }

// serve is the server process.
func serve(said string) {
	go func() {
		_, _ = io.Copy(io.Discard, os.Stdin)
		os.Exit(0) // whoever started it is gone
	}()
	if err := listenAndServe(said); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func listenAndServe(said string) error {
	var spec serverSpec
	if err := json.Unmarshal([]byte(said), &spec); err != nil {
		return err
	}
	l, err := net.FileListener(os.NewFile(3, "listener"))
	if err != nil {
		return err
	}
	config, err := pgxpool.ParseConfig(spec.DSN)
	if err != nil {
		return err
	}
	if spec.Conns > 0 {
		config.MaxConns = spec.Conns
	}
	store := &pgstore.Store{Pooler: spec.Pooler, IdleTimeout: spec.Lease, Isolation: spec.Isolation}
	store.Configure(config)
	if store.DB, err = pgxpool.NewWithConfig(context.Background(), config); err != nil {
		return err
	}
	guard := newGuard(store, spec)
	mux := http.NewServeMux()
	mux.Handle("/", suffering{guard, spec.Deaf})
	mux.HandleFunc("GET /drain", func(w http.ResponseWriter, r *http.Request) {
		if err := guard.Drain(r.Context()); err != nil {
			w.WriteHeader(http.StatusServiceUnavailable)
		}
	})
	return http.Serve(l, mux)
}

func newGuard(store testserver.Store, spec serverSpec) *testserver.Guard {
	return &testserver.Guard{
		Next:   &bank{spec, &http.Client{Transport: &http.Transport{MaxIdleConnsPerHost: 64}}},
		Store:  store,
		Scope:  testserver.GlobalScope,
		Effect: spec.Effect,
		Lease:  spec.Lease,
	}
}

// suffering kills the process, or loses the reply, outside of the guard.
type suffering struct {
	next http.Handler
	deaf bool // every reply is lost
}

func (s suffering) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	suffer(r, beforeClaim)
	s.next.ServeHTTP(&sufferingWriter{w, r, s.deaf || r.Header.Get(loseHeader) != ""}, r)
}

// A sufferingWriter gets the reply once the key is settled.
type sufferingWriter struct {
	http.ResponseWriter
	r    *http.Request
	lose bool
}

func (w *sufferingWriter) WriteHeader(status int) {
	suffer(w.r, afterCommit)
	if w.lose {
		panic(http.ErrAbortHandler)
	}
	w.ResponseWriter.WriteHeader(status)
}

func suffer(r *http.Request, point string) {
	switch point {
	case r.Header.Get(killHeader):
		_ = syscall.Kill(os.Getpid(), syscall.SIGKILL)
		select {}
	case r.Header.Get(stopHeader):
		_ = syscall.Kill(os.Getpid(), syscall.SIGSTOP)
		time.Sleep(100 * time.Millisecond) // it stops a little later
	}
}

// A bank is the guarded handler.
type bank struct {
	spec   serverSpec
	client *http.Client // of the provider
}

func (b *bank) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	suffer(r, afterClaim)
	if slow, err := time.ParseDuration(r.Header.Get(slowHeader)); err == nil {
		time.Sleep(slow)
	}
	var t transfer
	if err := json.NewDecoder(r.Body).Decode(&t); err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	receiptOf, err := b.effect(r, t)
	if err != nil {
		http.Error(w, err.Error(), http.StatusInternalServerError)
		return
	}
	suffer(r, afterEffect)
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(http.StatusCreated)
	_ = json.NewEncoder(w).Encode(receipt{t.Op, receiptOf})
}

func (b *bank) effect(r *http.Request, t transfer) (string, error) {
	ctx := r.Context()
	switch b.spec.Effect {
	case testserver.Transactional:
		return transferIn(ctx, t)
	case testserver.Keyed:
		key, err := testserver.DownstreamKey(ctx, "provider", "transfer")
		if err != nil {
			return "", err
		}
		return b.charge(ctx, t, key)
	case testserver.Marked:
		if err := testserver.EffectStarting(ctx); err != nil {
			return "", err
		}
		suffer(r, afterMark)
	}
	return b.charge(ctx, t, "")
}

// transferIn moves the money in the database. Rows are locked in their order, except for a few careless transfers that
// make deadlocks happen.
func transferIn(ctx context.Context, t transfer) (id string, err error) {
	tx := pgstore.Tx(ctx)
	first, second, amount := t.From, t.To, t.Amount
	if first > second != t.Careless {
		first, second, amount = t.To, t.From, -t.Amount
	}
	const change = `UPDATE accounts SET balance = balance + $2 WHERE id = $1`
	if _, err := tx.Exec(ctx, change, first, -amount); err != nil {
		return "", err
	}
	if _, err := tx.Exec(ctx, change, second, amount); err != nil {
		return "", err
	}
	err = tx.QueryRow(ctx, `INSERT INTO transfers (op) VALUES ($1) RETURNING id::text`, t.Op).Scan(&id)
	return id, err
}

// charge lets the provider, which is another server, move the money.
func (b *bank) charge(ctx context.Context, t transfer, key string) (string, error) {
	body, err := json.Marshal(t)
	if err != nil {
		return "", err
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, b.spec.Provider, bytes.NewReader(body))
	if err != nil {
		return "", err
	}
	req.GetBody = nil // net/http must not send it twice
	if key != "" {
		req.Header.Set("Idempotency-Key", key)
	}
	resp, err := b.client.Do(req)
	if err != nil {
		return "", err
	}
	defer resp.Body.Close()
	id, err := io.ReadAll(resp.Body)
	if err == nil && resp.StatusCode != http.StatusOK {
		err = errors.New(resp.Status)
	}
	return string(id), err
}
