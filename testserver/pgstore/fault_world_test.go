//go:build unix

package pgstore_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"math"
	"math/rand/v2"
	"net"
	"net/http"
	"net/url"
	"strconv"
	"sync/atomic"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/semel-go/semel"
	"github.com/semel-go/semel/testserver"
	"github.com/semel-go/semel/testserver/pgstore"
	"github.com/semel-go/semel/testserver/pgstore/pgtest"
)

const (
	accounts = 64
	fortune  = 1000 // of each account at the beginning
	lease    = 2 * time.Second
)

// patience is how long after a fault an answer may take: the promise is lease + 1 s, but the machine may be slow.
const patience = lease + 20*time.Second

// A world is server processes on one database, and what it takes to judge them from outside.
type world struct {
	t        *testing.T
	effect   testserver.Effect
	db       *pgxpool.Pool // past all proxies and poolers
	provider *provider
	servers  []*process
	client   *semel.Client
	patience time.Duration // with one attempt
	made     atomic.Int64  // operations
}

// newWorld starts n processes that reach the database by dsn; direct is a way that no fault is in.
func newWorld(t *testing.T, n int, direct string, spec serverSpec) *world {
	t.Helper()
	config, err := pgxpool.ParseConfig(direct)
	if err != nil {
		t.Fatal(err)
	}
	db := pgtest.Pool(t, config)
	if err := pgstore.CreateSchema(t.Context(), db); err != nil {
		t.Fatal(err)
	}
	_, err = db.Exec(t.Context(), fmt.Sprintf(`
		CREATE TABLE accounts (id int PRIMARY KEY, balance bigint NOT NULL);
		CREATE TABLE transfers (id bigint GENERATED ALWAYS AS IDENTITY, op text NOT NULL);
		INSERT INTO accounts SELECT i, %d FROM generate_series(1, %d) i`, fortune, accounts))
	if err != nil {
		t.Fatal(err)
	}
	w := &world{t: t, effect: spec.Effect, db: db, provider: newProvider(t), patience: 10 * time.Second}
	spec.Lease, spec.Provider = lease, w.provider.url
	if spec.DSN == "" {
		spec.DSN = direct
	}
	for range n {
		w.servers = append(w.servers, startProcess(t, spec))
	}
	w.client = w.newClient(w.alternate)
	return w
}

// alternate sends each attempt of an operation to the next server.
func (w *world) alternate(attempt int) string { return w.servers[attempt%len(w.servers)].addr }

// newClient returns a client whose attempts go where route says, and suffer what their operation's script says.
func (w *world) newClient(route func(attempt int) string) *semel.Client {
	base := &http.Transport{MaxIdleConnsPerHost: 64}
	w.t.Cleanup(base.CloseIdleConnections)
	return &semel.Client{HTTP: (&semel.Transport{
		Base: &scriptedTransport{base, route},
		Retry: semel.Policy{
			MaxAttempts: 20, MaxPolls: 1000, AttemptTimeout: w.patience, MaxWait: time.Second,
			Backoff: func() semel.Backoff { return steady(20 * time.Millisecond) },
			Budget:  &semel.Budget{Max: math.Inf(1)},
		},
	}).Client()}
}

type steady time.Duration

func (s steady) NextBackOff() time.Duration { return time.Duration(s) }

// An operation is one transfer, and the faults that its attempts meet.
type operation struct {
	name   string
	body   []byte
	script func(attempt int, h http.Header)
	sent   atomic.Int64
	lost   atomic.Int64 // replies

	op *semel.Operation
}

type operationKey struct{}

// A scriptedTransport sends an attempt to its server with the fault that is meant for it.
type scriptedTransport struct {
	base  http.RoundTripper
	route func(attempt int) string
}

func (s *scriptedTransport) RoundTrip(req *http.Request) (*http.Response, error) {
	o := req.Context().Value(operationKey{}).(*operation)
	attempt := int(o.sent.Add(1))
	req = req.Clone(req.Context())
	req.URL.Host = s.route(attempt)
	if o.script != nil {
		o.script(attempt, req.Header)
	}
	if req.Header.Get(loseHeader) != "" {
		o.lost.Add(1)
	}
	return s.base.RoundTrip(req)
}

// newOperation makes a transfer. The script may be nil.
func (w *world) newOperation(script func(attempt int, h http.Header)) *operation {
	n := int(w.made.Add(1))
	name := fmt.Sprintf("op-%d", n)
	body, err := json.Marshal(transfer{
		Op: name, From: 1 + rand.IntN(accounts), To: 1 + rand.IntN(accounts), Amount: 1 + n%7, Careless: n%50 == 0,
	})
	if err != nil {
		w.t.Error(err)
	}
	return &operation{name: name, body: body, script: script, op: semel.NewOperation("")}
}

// A result is how an operation ended for its client.
type result struct {
	*operation
	status   int // 0 without an answer
	receipt  string
	replayed bool
	unknown  bool // the server says that nobody knows
	err      error
	took     time.Duration
	ended    time.Time
}

// perform repeats the operation, as a client would that resumes it, until it is settled or the context ends.
func (w *world) perform(ctx context.Context, o *operation) (r result) {
	begun := time.Now()
	r.operation = o
	for ctx.Err() == nil {
		if r.err = w.try(ctx, &r); r.status != 0 || r.unknown {
			break
		}
		time.Sleep(20 * time.Millisecond)
	}
	r.ended = time.Now()
	r.took = r.ended.Sub(begun)
	return r
}

func (w *world) try(ctx context.Context, r *result) error {
	ctx = context.WithValue(r.op.Context(ctx), operationKey{}, r.operation)
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, "http://bank.test/transfers", bytes.NewReader(r.body))
	if err != nil {
		return err
	}
	req.Header.Set("Content-Type", "application/json")
	resp, err := w.client.Do(req)
	var e *semel.Error
	if errors.As(err, &e) {
		r.unknown = e.Verdict == semel.Unresolved
		if resp = e.Response; resp == nil || e.Verdict != semel.Final && e.Verdict != semel.Replay {
			return err
		}
	} else if err != nil {
		return err
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(resp.Body)
	if err != nil {
		return err
	}
	var said receipt
	_ = json.Unmarshal(body, &said) // a problem has none
	r.status, r.receipt = resp.StatusCode, said.Receipt
	r.replayed = resp.Header.Get("Idempotent-Replayed") != ""
	return nil
}

// book returns the receipts of all effects by operation, wherever they happened, and the sum of all accounts.
func (w *world) book() (effects map[string][]string, sum int) {
	w.t.Helper()
	w.db.Reset() // its connections may have been terminated
	effects, sum = w.provider.book()
	rows, err := w.db.Query(context.Background(), `SELECT op, array_agg(id::text) FROM transfers GROUP BY op`)
	if err != nil {
		w.t.Fatal(err)
	}
	inside := map[string][]string{}
	var op string
	var ids []string
	if _, err := pgx.ForEachRow(rows, []any{&op, &ids}, func() error { inside[op] = ids; return nil }); err != nil {
		w.t.Fatal(err)
	}
	maps.Copy(effects, inside)
	var balance int
	if err := w.db.QueryRow(context.Background(), `SELECT sum(balance) FROM accounts`).Scan(&balance); err != nil {
		w.t.Fatal(err)
	}
	return effects, sum + balance - accounts*fortune
}

// judge holds what the clients were told against what happened.
func (w *world) judge(results []result) {
	w.t.Helper()
	w.t.Logf("the slowest of %d operations took %v", len(results), slowest(results, time.Time{}).Round(time.Millisecond))
	effects, sum := w.book()
	if sum != 0 {
		w.t.Errorf("the accounts are %d off: money was made or lost", sum)
	}
	for _, r := range results {
		switch done := effects[r.name]; {
		case len(done) > 1:
			w.t.Errorf("%s happened %d times", r.name, len(done))
		case r.unknown && (w.effect == testserver.Transactional || w.effect == testserver.Keyed):
			w.t.Errorf("%s: the server does not know, though it could", r.name)
		case r.unknown:
		case r.status == 0:
			w.t.Errorf("%s has no answer after %v and %d attempts: %v", r.name, r.took, r.sent.Load(), r.err)
		case r.status == http.StatusCreated && (len(done) != 1 || done[0] != r.receipt):
			w.t.Errorf("%s was answered with the receipt %q, but its effects are %q", r.name, r.receipt, done)
		case r.status != http.StatusCreated && r.status < 500 && len(done) > 0:
			w.t.Errorf("%s was refused with %d, but it happened", r.name, r.status)
		}
		delete(effects, r.name)
	}
	for op := range effects {
		w.t.Errorf("%s happened, but nobody asked for it", op)
	}
}

// slowest returns how long the slowest operation took, counted from a moment at the earliest.
func slowest(results []result, from time.Time) (most time.Duration) {
	for _, r := range results {
		most = max(most, min(r.took, r.ended.Sub(from)))
	}
	return most
}

// hostOf returns the address in a DSN.
func hostOf(t *testing.T, dsn string) string {
	t.Helper()
	c, err := pgx.ParseConfig(dsn)
	if err != nil {
		t.Fatal(err)
	}
	return net.JoinHostPort(c.Host, strconv.Itoa(int(c.Port)))
}

// via returns a DSN of the same database by another address, in the clear.
func via(t *testing.T, dsn, addr string) string {
	t.Helper()
	c, err := pgx.ParseConfig(dsn)
	if err != nil {
		t.Fatal(err)
	}
	u := url.URL{Scheme: "postgres", User: url.UserPassword(c.User, c.Password), Host: addr, Path: c.Database, RawQuery: "sslmode=disable"}
	return u.String()
}
