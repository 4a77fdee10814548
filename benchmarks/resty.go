package benchmarks

import (
	"context"
	"net/http"

	restyv2 "github.com/go-resty/resty/v2"
	restyv3 "resty.dev/v3"
)

type quiet struct{}

func (quiet) Errorf(string, ...any) {}
func (quiet) Warnf(string, ...any)  {}
func (quiet) Debugf(string, ...any) {}

func restyV2(rt http.RoundTripper, _ string) Send {
	c := restyv2.NewWithClient(&http.Client{Transport: rt}).SetLogger(quiet{})
	c.SetRetryCount(2).SetRetryWaitTime(0).SetRetryMaxWaitTime(0)
	c.AddRetryCondition(func(r *restyv2.Response, err error) bool { return err != nil || r.StatusCode() >= 500 })
	return func(ctx context.Context, op *Op) (int, error) {
		r := c.R().SetContext(ctx)
		switch {
		case op.Reader:
			r.SetBody(op.reader())
		case op.Body != nil:
			r.SetBody(op.Body)
		}
		resp, err := r.Execute(op.Method, op.URL)
		return resp.StatusCode(), err
	}
}

func restyV3(rt http.RoundTripper, _ string) Send {
	c := restyv3.NewWithClient(&http.Client{Transport: rt}).SetLogger(quiet{})
	c.SetRetryCount(2).SetRetryWaitTime(0).SetRetryMaxWaitTime(0).SetRetryAllowNonIdempotent(true)
	c.AddRetryConditions(func(r *restyv3.Response, err error) bool { return err != nil || r.StatusCode() >= 500 })
	return func(ctx context.Context, op *Op) (int, error) {
		r := c.R().SetContext(ctx)
		switch {
		case op.Reader:
			r.SetBody(op.reader())
		case op.Body != nil:
			r.SetBody(op.Body)
		}
		resp, err := r.Execute(op.Method, op.URL)
		if err != nil {
			return 0, err // resp is nil, if the body cannot be sent again
		}
		resp.Bytes()
		return resp.StatusCode(), resp.CascadeError
	}
}
