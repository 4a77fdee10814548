package findings

import (
	"net/http"
	"testing"
	"time"

	"github.com/PuerkitoBio/rehttp"
	"github.com/failsafe-go/failsafe-go/failsafehttp"
	"github.com/hashicorp/go-retryablehttp"

	"github.com/semel-go/semel"
	"github.com/semel-go/semel/semeltest"
)

func transport(wrap func(base http.RoundTripper) http.RoundTripper) func(*testing.T) {
	return func(t *testing.T) { semeltest.TestTransport(t, wrap) }
}

func semelTransport(base http.RoundTripper) http.RoundTripper { return &semel.Transport{Base: base} }

func retryable(base http.RoundTripper) http.RoundTripper {
	c := retryablehttp.NewClient()
	c.HTTPClient = &http.Client{Transport: base}
	c.Logger = nil
	return c.StandardClient().Transport
}

func failsafe(base http.RoundTripper) http.RoundTripper {
	return failsafehttp.NewRoundTripper(base, failsafehttp.NewRetryPolicyBuilder().Build())
}

func rehttpTransport(base http.RoundTripper) http.RoundTripper {
	failed := rehttp.RetryAny(
		rehttp.RetryStatusInterval(500, 600),
		rehttp.RetryIsErr(func(err error) bool { return err != nil }))
	return rehttp.NewTransport(base, rehttp.RetryAll(rehttp.RetryMaxRetries(3), failed), rehttp.ConstDelay(time.Second))
}
