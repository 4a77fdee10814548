package benchmarks

import (
	"context"
	"net/http"

	"github.com/openai/openai-go/v3"
	"github.com/openai/openai-go/v3/option"
	"github.com/stripe/stripe-go/v85"
)

type stripeReply struct {
	stripe.APIResource
	OK bool `json:"ok"`
}

func stripeGo(rt http.RoundTripper, base string) Send {
	b := stripe.GetBackendWithConfig(stripe.APIBackend, &stripe.BackendConfig{
		HTTPClient:    &http.Client{Transport: rt},
		URL:           stripe.String(base),
		LeveledLogger: &stripe.LeveledLogger{Level: stripe.LevelNull},
	}).(*stripe.BackendImplementation)
	b.SetNetworkRetriesSleep(false)
	return func(ctx context.Context, op *Op) (int, error) {
		var reply stripeReply
		if err := b.CallRaw(op.Method, op.Path, "sk_test_x", op.Body, &stripe.Params{Context: ctx}, &reply); err != nil {
			return 0, err
		}
		return reply.LastResponse.StatusCode, nil
	}
}

func openaiGo(rt http.RoundTripper, base string) Send {
	c := openai.NewClient(option.WithBaseURL(base+"/"), option.WithAPIKey("x"),
		option.WithHTTPClient(&http.Client{Transport: rt}), option.WithMaxRetryDelay(1))
	return func(ctx context.Context, op *Op) (int, error) {
		var opts []option.RequestOption
		if op.Body != nil {
			opts = append(opts, option.WithRequestBody("application/octet-stream", op.Body))
		}
		var resp *http.Response
		if err := c.Execute(ctx, op.Method, op.Path[1:], nil, &resp, opts...); err != nil {
			return 0, err
		}
		return finish(resp)
	}
}
