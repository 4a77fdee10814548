package benchmarks

import (
	"context"
	"net/http"

	"github.com/PuerkitoBio/rehttp"
	"github.com/failsafe-go/failsafe-go/failsafehttp"
	"github.com/hashicorp/go-retryablehttp"
)

func newRetryable(rt http.RoundTripper) *retryablehttp.Client {
	c := retryablehttp.NewClient()
	c.HTTPClient = &http.Client{Transport: rt}
	c.Logger = nil
	c.RetryWaitMin, c.RetryWaitMax, c.RetryMax = 0, 0, 2
	return c
}

func retryableRoundTripper(rt http.RoundTripper) http.RoundTripper {
	return newRetryable(rt).StandardClient().Transport
}

func retryableClient(rt http.RoundTripper, _ string) Send {
	c := newRetryable(rt)
	return func(ctx context.Context, op *Op) (int, error) {
		var body any
		if r := op.reader(); r != nil {
			body = r
		}
		req, err := retryablehttp.NewRequestWithContext(ctx, op.Method, op.URL, body)
		if err != nil {
			return 0, err
		}
		return finished(c.Do(req))
	}
}

func failsafe(rt http.RoundTripper) http.RoundTripper {
	return failsafehttp.NewRoundTripper(rt, failsafehttp.NewRetryPolicyBuilder().Build())
}

func rehttpTransport(rt http.RoundTripper) http.RoundTripper {
	failed := rehttp.RetryAny(
		rehttp.RetryStatusInterval(500, 600),
		rehttp.RetryIsErr(func(err error) bool { return err != nil }))
	return rehttp.NewTransport(rt, rehttp.RetryAll(rehttp.RetryMaxRetries(2), failed), rehttp.ConstDelay(0))
}
