package semeltest_test

import (
	"context"
	"errors"
	"io"
	"net/http"
	"strings"
	"testing"

	"github.com/semel-go/semel"
	"github.com/semel-go/semel/semeltest"
)

func TestSemelTransport(t *testing.T) {
	semeltest.TestTransport(t, func(base http.RoundTripper) http.RoundTripper { return &semel.Transport{Base: base} })
}

// perform is what the README tells people to write.
func perform(ctx context.Context, base http.RoundTripper, n int) semeltest.Belief {
	return performWith(ctx, &semel.Transport{Base: base})
}

func performWith(ctx context.Context, rt http.RoundTripper) semeltest.Belief {
	client := &semel.Client{HTTP: &http.Client{Transport: rt}}
	req, err := http.NewRequestWithContext(ctx, "POST", "http://api.test/things", strings.NewReader(`{"n":1}`))
	if err != nil {
		return semeltest.Belief{Err: err}
	}
	resp, err := client.Do(req)
	if err == nil {
		defer resp.Body.Close()
		body, err := io.ReadAll(resp.Body)
		if err != nil {
			return semeltest.Belief{Err: err}
		}
		if resp.StatusCode >= 300 {
			return semeltest.Belief{Outcome: semel.NotApplied}
		}
		return semeltest.Belief{Outcome: semel.Applied, Answer: body}
	}
	var e *semel.Error
	if errors.As(err, &e) {
		return semeltest.Belief{Outcome: e.Outcome, Err: err}
	}
	return semeltest.Belief{Err: err}
}

func TestSemelClient(t *testing.T) {
	semeltest.TestClient(t, semeltest.Client{Perform: perform})
}
