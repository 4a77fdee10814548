package semeltest

import (
	"context"
	"net/http"
	"os"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/semel-go/semel"
)

// A Client is client code under test, and the API that it is written for.
type Client struct {
	// Perform performs operation n through base, with whatever retries the code makes, and says what it believes then.
	// Different numbers are different operations. Base reaches the API under any host and must be the only way out.
	Perform func(ctx context.Context, base http.RoundTripper, n int) Belief

	// Handler is the API as the code expects it, without idempotency: the kit puts a guard in front, and counts each call
	// that it answers with a status below 400 as an effect. It is not told of GET requests' effects. If nil, every request
	// is answered with 201 and a small JSON object.
	Handler http.Handler
	Rules   Rules  // how the API spells idempotency
	HTTP2   bool   // speak HTTP/2
	Dir     string // where pictures of failed cases are written; if empty, that of $SEMEL_PICTURES in tests, or nowhere

	transport func(base http.RoundTripper) http.RoundTripper // of TestTransport
}

// A Belief is what client code says of an operation. The zero Belief is: nobody can know.
type Belief struct {
	Outcome semel.Outcome
	Answer  []byte // the body of the answer that it took; nil if it does not say
	Err     error  // for the diagram
}

// TestClient runs client code through every fault and judges by both ends: the effects at the server, and what the code
// believes. Each case is a subtest in a testing/synctest bubble, so that hours of waiting take no time.
func TestClient(t *testing.T, c Client) {
	c.Dir = pictures(c.Dir)
	for _, r := range clientRules() {
		t.Run(r.name, func(t *testing.T) {
			if v := bubbled(t, func(ctx context.Context, w **World) *Violation { return r.violation(ctx, &c, w) }); v != nil {
				t.Error(r.explain(v))
			}
		})
	}
}

// CheckClient does what [TestClient] does, outside of tests and in real time, which takes minutes, or in the caller's
// bubble. The error joins a *[Violation] for each broken rule.
func CheckClient(ctx context.Context, c Client) error {
	return checkAll(ctx, clientRules(), func(r clientRule) *Violation { return r.checked(ctx, &c) })
}

func (r *clientRule) checked(ctx context.Context, c *Client) *Violation {
	var w *World
	v := r.violation(ctx, c, &w)
	if v != nil {
		v = r.explain(v)
	}
	return v
}

// pictures returns the directory for pictures, in a test.
func pictures(dir string) string {
	if dir == "" {
		dir = os.Getenv("SEMEL_PICTURES")
	}
	return dir
}

// bubbled runs a case in simulated time. A bubble that does not come to its end is a finding, too: its goroutines wait for
// ever, or were left behind.
func bubbled(t *testing.T, run func(context.Context, **World) *Violation) (v *Violation) {
	var w *World
	defer func() {
		if p := recover(); p != nil {
			v = unended(v, w, p)
		}
	}()
	synctest.Test(t, func(t *testing.T) { v = run(t.Context(), &w) })
	return v
}

// unended adds to a finding that its bubble did not come to its end.
func unended(v *Violation, w *World, p any) *Violation {
	if v == nil {
		v = new(Violation)
	}
	if v.Found != "" {
		v.Found += "\n"
	}
	v.Found += "it does not come to an end, or leaves goroutines behind: " + panicText(p)
	if w != nil {
		v.Report = w.History().String()
	}
	return v
}

func panicText(p any) string {
	if err, ok := p.(error); ok {
		return err.Error()
	}
	if s, ok := p.(string); ok {
		return s
	}
	return "panic"
}

// A clientRule is one case of TestClient.
type clientRule struct {
	name   string
	rule   string
	faults []Fault
	http2  bool
	slow   time.Duration // that the API's work takes
	after  time.Duration // until everything has arrived
	within time.Duration // the context's deadline; if 0, ten minutes
	run    func(*clientCase)
}

func (r *clientRule) explain(v *Violation) *Violation {
	v.Case, v.Rule = r.name, r.rule
	var names []string
	for _, f := range r.faults {
		names = append(names, f.name)
	}
	v.Fault = strings.Join(names, ", ")
	return v
}

func (r *clientRule) violation(ctx context.Context, client *Client, world **World) *Violation {
	w := &World{limit: 500, Faults: r.faults, Header: client.Rules.Header, HTTP2: r.http2 || client.HTTP2}
	*world = w
	a := newAPI(w, client, r.slow)
	w.Handler = a
	found := examine(ctx, func(c *check) {
		p := &clientCase{check: c, client: client, world: w, api: a, rule: r}
		defer w.Close()
		r.run(p)
		_ = pause(ctx, r.after)
		w.Close() // waits for the handlers
		p.judge()
	})
	if len(found) == 0 {
		return nil
	}
	v := &Violation{Found: strings.Join(found, "\n"), Report: w.History().String()}
	if err := draw(client.Dir, "client "+r.name, w.History()); err != nil {
		v.Found += "\n" + err.Error()
	}
	return v
}
