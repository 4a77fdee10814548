package semeltest

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"sync"
	"testing"
	"time"

	"github.com/semel-go/semel"
	"github.com/semel-go/semel/testserver"
)

// TestTogether runs semel's client against a server, with everything lost that can be lost between them, and judges by
// both ends: what the caller was told, and what the bank did. It is for stores and ledgers: newServer returns a fresh
// server that has not started, with the faults in place, as [testserver.New] does, and releases what it holds by
// t.Cleanup. It runs on loopback connections, in real time.
func TestTogether(t *testing.T, newServer func(t *testing.T, faults ...testserver.Fault) *testserver.Server) {
	for _, c := range togetherCases {
		t.Run(c.name, func(t *testing.T) {
			p := startPair(t, c, newServer)
			if err := c.run(p); err != nil {
				t.Errorf("%s\nrule: %s", err, c.rule)
			}
			if total := p.server.Bank.Total(); total != 2000 {
				t.Errorf("money was made or lost: the bank holds %d of 2000", total)
			}
		})
	}
}

// A togetherCase is one way for a transfer to go wrong.
type togetherCase struct {
	name   string
	rule   string
	faults []testserver.Fault
	plan   func(conn int) Plan // of the wire; nil: clean
	run    func(*pair) error
}

// A pair is a client and a server with a proxy between them.
type pair struct {
	t      *testing.T
	server *testserver.Server
	base   *http.Transport
	client *semel.Client
	policy semel.Policy
}

func startPair(t *testing.T, c togetherCase, newServer func(*testing.T, ...testserver.Fault) *testserver.Server) *pair {
	t.Helper()
	s := newServer(t, c.faults...)
	if err := s.Start(); err != nil {
		t.Fatalf("the server does not start: %v", err)
	}
	proxy := &Proxy{Plan: c.plan}
	p := &pair{t: t, server: s, base: &http.Transport{DialContext: proxy.DialContext}}
	p.policy = semel.Policy{
		Backoff:        func() semel.Backoff { return steady(5 * time.Millisecond) },
		AttemptTimeout: 10 * time.Second,
	}
	p.client = p.newClient()
	t.Cleanup(func() {
		p.base.CloseIdleConnections()
		if err := errors.Join(s.Close(), proxy.Close()); err != nil {
			t.Errorf("closing: %v", err)
		}
	})
	return p
}

// newClient is another process: it shares nothing with the others but the wire.
func (p *pair) newClient() *semel.Client {
	return &semel.Client{HTTP: (&semel.Transport{Base: p.base, Retry: p.policy}).Client()}
}

type steady time.Duration

func (s steady) NextBackOff() time.Duration { return time.Duration(s) }

const payload = `{"from":"alice","to":"bob","amount":100}`

func (p *pair) request(ctx context.Context, body string) *http.Request {
	r, err := http.NewRequestWithContext(ctx, http.MethodPost, p.server.URL+"/transfers", bytes.NewReader([]byte(body)))
	if err != nil {
		panic(err)
	}
	r.Header.Set("Content-Type", "application/json")
	return r
}

// do performs the operation and returns the answer's status and body.
func (p *pair) do(op *semel.Operation) (status int, body string, err error) {
	return send(p.client, p.request(op.Context(p.t.Context()), payload))
}

func send(c *semel.Client, r *http.Request) (status int, body string, err error) {
	resp, err := c.Do(r)
	if err != nil {
		return 0, "", err
	}
	defer resp.Body.Close()
	b, err := io.ReadAll(resp.Body)
	return resp.StatusCode, string(b), err
}

// answered is the case of an operation that must be answered, with one effect and a caller who knows.
func answered(p *pair) error {
	op := semel.NewOperation("")
	status, body, err := p.do(op)
	return errors.Join(
		expect("the answer", err, nil),
		expect("the status", status, http.StatusCreated),
		expect("a body", body != "", true),
		p.judge(op, semel.Applied, 1),
	)
}

// judge compares what the caller believes with what the bank did.
func (p *pair) judge(op *semel.Operation, outcome semel.Outcome, effects int) error {
	return errors.Join(
		expect("what the caller believes", op.Outcome(), outcome),
		expect("what the bank did", p.server.Bank.Effects(op.Key()), effects),
	)
}

func expect[T comparable](what string, got, want T) error {
	if got != want {
		return fmt.Errorf("%s: %v, not %v", what, got, want)
	}
	return nil
}

// expectIs is expect for errors.
func expectIs(err, target error) error {
	if !errors.Is(err, target) {
		return fmt.Errorf("the error: %v, which is not %q", err, target)
	}
	return nil
}

// together runs n copies of the operation, each as a process of its own, at the same time.
func (p *pair) together(n int) error {
	op := semel.NewOperation("")
	var (
		start   = make(chan struct{})
		wg      sync.WaitGroup
		mu      sync.Mutex
		replies = make(map[string]int)
		errs    []error
	)
	for range n {
		wg.Go(func() {
			r := p.request(p.t.Context(), payload)
			r.Header.Set("Idempotency-Key", op.Key())
			client := p.newClient()
			<-start
			status, body, err := send(client, r)
			mu.Lock()
			defer mu.Unlock()
			replies[fmt.Sprint(status, body)]++
			errs = append(errs, err)
		})
	}
	close(start)
	wg.Wait()
	return errors.Join(
		errors.Join(errs...),
		expect("different replies", len(replies), 1),
		expect("what the bank did", p.server.Bank.Effects(op.Key()), 1),
	)
}
