package benchmarks

import (
	"net/http"

	"github.com/cenkalti/backoff/v4"
	"github.com/semel-go/semel"
)

// semelOn is semel as it comes, but for the policy that all peers share: three attempts, no waits, and a budget that one
// retry for each answer does not empty.
func semelOn(rt http.RoundTripper) *semel.Transport {
	return &semel.Transport{Base: rt, Retry: semel.Policy{
		MaxAttempts: 3,
		Backoff:     func() semel.Backoff { return &backoff.ZeroBackOff{} },
		Budget:      &semel.Budget{Refill: 1},
	}}
}

func semelOff(rt http.RoundTripper) *semel.Transport {
	t := semelOn(rt)
	t.Retry.AttemptTimeout = semel.Forever
	t.MaxReply = -1
	return t
}

func semelClient(policy func(http.RoundTripper) *semel.Transport) func(http.RoundTripper, string) Send {
	return func(rt http.RoundTripper, _ string) Send {
		return do((&semel.Client{HTTP: policy(rt).Client()}).Do)
	}
}

func semelTransport(policy func(http.RoundTripper) *semel.Transport) func(http.RoundTripper, string) Send {
	return func(rt http.RoundTripper, _ string) Send {
		return do((&http.Client{Transport: policy(rt)}).Do)
	}
}
