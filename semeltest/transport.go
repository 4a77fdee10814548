package semeltest

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync"
	"testing"

	"github.com/semel-go/semel"
)

// TestTransport runs a RoundTripper that repeats requests through every fault: the cases of [TestClient], with a caller
// who brings a key, and those of the http.RoundTripper contract. New returns a fresh one on top of base; it is called for
// each case, in its bubble.
//
//	func TestTransport(t *testing.T) {
//		semeltest.TestTransport(t, func(base http.RoundTripper) http.RoundTripper { return &semel.Transport{Base: base} })
//	}
//
// A 2xx that can be read whole counts as the claim that the operation was applied, an error that matches
// [semel.NotSent] or [semel.NotApplied] as the claim that it was not, and all else as none.
func TestTransport(t *testing.T, new func(base http.RoundTripper) http.RoundTripper) {
	c := transportClient(new)
	c.Dir = pictures("")
	for _, r := range transportRules() {
		t.Run(r.name, func(t *testing.T) {
			if v := bubbled(t, func(ctx context.Context, w **World) *Violation { return r.violation(ctx, c, w) }); v != nil {
				t.Error(r.explain(v))
			}
		})
	}
}

// CheckTransport does what [TestTransport] does, outside of tests and in real time, which takes minutes, or in the caller's
// bubble. The error joins a *[Violation] for each broken rule.
func CheckTransport(ctx context.Context, new func(base http.RoundTripper) http.RoundTripper) error {
	c := transportClient(new)
	return checkAll(ctx, transportRules(), func(r clientRule) *Violation { return r.checked(ctx, c) })
}

func transportRules() []clientRule { return append(contractRules(), clientRules()...) }

// transportClient is client code on top of the transport: http.Client, and a caller who believes what it says.
func transportClient(make func(base http.RoundTripper) http.RoundTripper) *Client {
	c := &Client{transport: make}
	var mu sync.Mutex
	var world http.RoundTripper
	var one *http.Client
	var run string
	c.Perform = func(ctx context.Context, base http.RoundTripper, n int) Belief {
		mu.Lock()
		if base != world {
			world, one, run = base, &http.Client{Transport: make(base)}, randomName()[:8]
		}
		client, key := one, fmt.Sprintf("%s-%d", run, n)
		mu.Unlock()
		req, err := newPost(ctx, n)
		if err != nil {
			return Belief{Err: err}
		}
		c.Rules.setKey(req, key)
		return believe(client.Do(req))
	}
	return c
}

func newPost(ctx context.Context, n int) (*http.Request, error) {
	body := fmt.Sprintf(`{"operation":%d,"note":%q}`, n, strings.Repeat("x", 200))
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, "http://api.test/things", strings.NewReader(body))
	if err == nil {
		req.Header.Set("Content-Type", "application/json")
	}
	return req, err
}

// believe is what a caller may conclude.
func believe(resp *http.Response, err error) Belief {
	if err == nil && resp.StatusCode < 300 {
		defer resp.Body.Close()
		body, err := io.ReadAll(resp.Body)
		if err != nil {
			return Belief{Err: err}
		}
		return Belief{Outcome: semel.Applied, Answer: body, Err: nil}
	}
	checked, err := semel.Check(resp, err)
	if checked != nil {
		checked.Body.Close()
	}
	if err == nil { // an answer that is none of success, from a transport that knows what that means
		return Belief{Outcome: semel.NotApplied, Err: fmt.Errorf("status %d", resp.StatusCode)}
	}
	return Belief{Outcome: outcomeOf(err), Err: err}
}

func outcomeOf(err error) semel.Outcome {
	for _, o := range []semel.Outcome{semel.NotSent, semel.NotApplied, semel.Applied, semel.AppliedEarlier} {
		if errors.Is(err, o) {
			return o
		}
	}
	return semel.Unknown
}
