package benchmarks

import (
	"bytes"
	"context"
	"io"
	"net/http"
)

// An Op is one operation as a user of a peer thinks of it.
type Op struct {
	Method string
	URL    string // of the base that New was given, and Path
	Path   string // begins with /v1/, as stripe-go insists
	Body   []byte // nil: none
	Reader bool   // the body is given as a reader that offers nothing but Read
}

func (op *Op) reader() io.Reader {
	switch {
	case op.Body == nil:
		return nil
	case op.Reader:
		return struct{ io.Reader }{bytes.NewReader(op.Body)}
	default:
		return bytes.NewReader(op.Body)
	}
}

func (op *Op) request(ctx context.Context) (*http.Request, error) {
	return http.NewRequestWithContext(ctx, op.Method, op.URL, op.reader())
}

// A Send performs one Op, reads the reply to its end and closes it.
type Send func(ctx context.Context, op *Op) (status int, err error)

// A Peer is one row. All peers make at most three attempts, on 5xx and on transport errors, and never wait.
type Peer struct {
	Name   string
	Module string // module path, for its version; "" is the standard library or this repository
	Note   string // how it is configured, where that is not plain
	New    func(rt http.RoundTripper, base string) Send

	Once     bool // never retries
	NoReader bool // takes no plain reader as a body
}

// Peers returns the rows, in the order of the tables.
func Peers() []Peer {
	return []Peer{
		{Name: "nethttp.RoundTripper", Once: true, Note: "no http.Client around it", New: bareRoundTripper},
		{Name: "nethttp.Client", Once: true, New: viaClient(bare)},
		{Name: "floor", Note: "the least a keyed RoundTripper can do: request copy, header map copy, UUID; no waits, no budget, no Retry-After", New: viaClient(newFloor)},
		{Name: "semel", Note: "semel.Client.Do, everything on", New: semelClient(semelOn)},
		{Name: "semel.Transport", Note: "semel.Transport below http.Client, everything on", New: semelTransport(semelOn)},
		{Name: "semel-off", Note: "semel.Client.Do, AttemptTimeout: Forever, MaxReply: -1", New: semelClient(semelOff)},
		{Name: "semel.Transport-off", Note: "semel.Transport below http.Client, the same", New: semelTransport(semelOff)},
		{Name: "backoff-v4-loop", Module: "github.com/cenkalti/backoff/v4", Note: "hand-written: uuid.NewString, backoff.Retry around http.Client.Do", NoReader: true, New: backoffLoop},
		{Name: "retryablehttp.Client", Module: "github.com/hashicorp/go-retryablehttp", Note: "its own request type, no logger", New: retryableClient},
		{Name: "retryablehttp.StandardClient", Module: "github.com/hashicorp/go-retryablehttp", Note: "its RoundTripper, no logger", New: viaClient(retryableRoundTripper)},
		{Name: "failsafehttp", Module: "github.com/failsafe-go/failsafe-go", Note: "NewRoundTripper with the default HTTP retry policy", New: viaClient(failsafe)},
		{Name: "rehttp", Module: "github.com/PuerkitoBio/rehttp", New: viaClient(rehttpTransport)},
		{Name: "resty-v2", Module: "github.com/go-resty/resty/v2", New: restyV2},
		{Name: "resty-v3", Module: "resty.dev/v3", New: restyV3},
		{Name: "azcore", Module: "github.com/Azure/azure-sdk-for-go/sdk/azcore", Note: "the default pipeline, RetryDelay 1 ns", NoReader: true, New: azcore},
		{Name: "aws-retry", Module: "github.com/aws/aws-sdk-go-v2", Note: "the retry middleware alone, on a stack built once", NoReader: true, New: awsRetry},
		{Name: "stripe-go", Module: "github.com/stripe/stripe-go/v85", Note: "CallRaw, no logger; makes a key", NoReader: true, New: stripeGo},
		{Name: "openai-go", Module: "github.com/openai/openai-go/v3", Note: "Client.Execute, raw reply", NoReader: true, New: openaiGo},
	}
}

// finish reads a reply to its end and closes it.
func finish(resp *http.Response) (int, error) {
	_, err := io.Copy(io.Discard, resp.Body)
	if cerr := resp.Body.Close(); err == nil {
		err = cerr
	}
	return resp.StatusCode, err
}

func finished(resp *http.Response, err error) (int, error) {
	if err != nil {
		return 0, err
	}
	return finish(resp)
}

// do performs operations as a user of any http.Client does.
func do(call func(*http.Request) (*http.Response, error)) Send {
	return func(ctx context.Context, op *Op) (int, error) {
		req, err := op.request(ctx)
		if err != nil {
			return 0, err
		}
		return finished(call(req))
	}
}

func viaClient(wrap func(http.RoundTripper) http.RoundTripper) func(http.RoundTripper, string) Send {
	return func(rt http.RoundTripper, _ string) Send { return do((&http.Client{Transport: wrap(rt)}).Do) }
}

func bareRoundTripper(rt http.RoundTripper, _ string) Send { return do(rt.RoundTrip) }

func bare(rt http.RoundTripper) http.RoundTripper { return rt }
