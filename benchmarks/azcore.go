package benchmarks

import (
	"bytes"
	"context"
	"net/http"
	"time"

	"github.com/Azure/azure-sdk-for-go/sdk/azcore/policy"
	"github.com/Azure/azure-sdk-for-go/sdk/azcore/runtime"
	"github.com/Azure/azure-sdk-for-go/sdk/azcore/streaming"
)

func azcore(rt http.RoundTripper, _ string) Send {
	pipeline := runtime.NewPipeline("benchmarks", "v0.0.0", runtime.PipelineOptions{}, &policy.ClientOptions{
		Transport: &http.Client{Transport: rt},
		Retry:     policy.RetryOptions{RetryDelay: time.Nanosecond, MaxRetries: 2}, // a delay of 0 is its default, and a negative one waits the longest
	})
	return func(ctx context.Context, op *Op) (int, error) {
		req, err := runtime.NewRequest(ctx, op.Method, op.URL)
		if err != nil {
			return 0, err
		}
		if op.Body != nil {
			if err := req.SetBody(streaming.NopCloser(bytes.NewReader(op.Body)), "application/octet-stream"); err != nil {
				return 0, err
			}
		}
		return finished(pipeline.Do(req))
	}
}
