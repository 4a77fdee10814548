package benchmarks

import (
	"bytes"
	"context"
	"net/http"
	"net/url"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws/retry"
	"github.com/aws/smithy-go"
	"github.com/aws/smithy-go/middleware"
	smithyhttp "github.com/aws/smithy-go/transport/http"
)

// awsRetry is the retry middleware on a stack of its own, built once; the service clients build theirs, of about thirty
// middlewares, for each call.
func awsRetry(rt http.RoundTripper, _ string) Send {
	stack := middleware.NewStack("op", smithyhttp.NewStackRequest)
	must(stack.Serialize.Add(middleware.SerializeMiddlewareFunc("serialize", awsSerialize), middleware.After))
	retryer := retry.NewStandard(func(o *retry.StandardOptions) {
		o.Backoff = retry.BackoffDelayerFunc(func(int, error) (time.Duration, error) { return 0, nil })
	})
	must(stack.Finalize.Add(retry.NewAttemptMiddleware(retryer, smithyhttp.RequestCloner), middleware.After))
	must(stack.Deserialize.Add(middleware.DeserializeMiddlewareFunc("deserialize", awsDeserialize), middleware.After))
	handler := middleware.DecorateHandler(smithyhttp.NewClientHandlerWithOptions(&http.Client{Transport: rt}), stack)
	return func(ctx context.Context, op *Op) (int, error) {
		out, _, err := handler.Handle(middleware.ClearStackValues(ctx), op)
		if err != nil {
			return 0, err
		}
		return out.(int), nil
	}
}

func awsSerialize(ctx context.Context, in middleware.SerializeInput, next middleware.SerializeHandler) (out middleware.SerializeOutput, md middleware.Metadata, err error) {
	op, req := in.Parameters.(*Op), in.Request.(*smithyhttp.Request)
	req.Method = op.Method
	if req.URL, err = url.Parse(op.URL); err != nil {
		return out, md, err
	}
	if op.Body != nil {
		if req, err = req.SetStream(bytes.NewReader(op.Body)); err != nil {
			return out, md, err
		}
	}
	in.Request = req
	return next.HandleSerialize(ctx, in)
}

func awsDeserialize(ctx context.Context, in middleware.DeserializeInput, next middleware.DeserializeHandler) (middleware.DeserializeOutput, middleware.Metadata, error) {
	out, md, err := next.HandleDeserialize(ctx, in)
	if err != nil {
		return out, md, err
	}
	resp := out.RawResponse.(*smithyhttp.Response)
	status, err := finish(resp.Response)
	if err != nil {
		return out, md, &smithy.DeserializationError{Err: err}
	}
	if status >= 400 {
		return out, md, &smithyhttp.ResponseError{Response: resp, Err: &smithy.GenericAPIError{Code: "Unavailable"}}
	}
	out.Result = status
	return out, md, nil
}

func must(err error) {
	if err != nil {
		panic(err)
	}
}
