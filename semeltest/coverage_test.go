package semeltest_test

import (
	"context"
	"errors"
	"net/http"
	"testing"
	"time"

	"github.com/semel-go/semel/semeltest"
)

// Each is wrong in a way of its own; together they fail every case that a transport can fail.
var naive = map[string]maker{
	"gives up at once": func(base http.RoundTripper) http.RoundTripper {
		return roundTrip(func(r *http.Request) (*http.Response, error) {
			resp, err := base.RoundTrip(r)
			switch {
			case err != nil:
				return nil, never(err)
			case resp.StatusCode >= 300:
				resp.Body.Close()
				return nil, never(errors.New(resp.Status))
			}
			return resp, nil
		})
	},
	"never gives up": func(base http.RoundTripper) http.RoundTripper {
		return roundTrip(func(r *http.Request) (*http.Response, error) {
			for {
				if r.GetBody != nil {
					r.Body, _ = r.GetBody()
				}
				if resp, err := base.RoundTrip(r); err == nil && resp.StatusCode < 300 {
					return resp, nil
				}
				time.Sleep(time.Second)
			}
		})
	},
	"never gives up, and claims success": func(base http.RoundTripper) http.RoundTripper {
		return roundTrip(func(r *http.Request) (*http.Response, error) {
			r = r.WithContext(context.WithoutCancel(r.Context()))
			for range 101 {
				r.Body, _ = r.GetBody()
				r.Header.Set("Idempotency-Key", time.Now().String())
				if resp, err := base.RoundTrip(r); err == nil && resp.StatusCode < 300 {
					return resp, nil
				}
			}
			return &http.Response{StatusCode: 200, Header: make(http.Header), Body: http.NoBody, Request: r}, nil
		})
	},
	"claims failure when time is up": above(func(rt http.RoundTripper, r *http.Request) (*http.Response, error) {
		resp, err := rt.RoundTrip(r)
		if err != nil {
			return nil, never(err)
		}
		return resp, nil
	}),
}

func TestEveryTransportCaseCanFail(t *testing.T) {
	caught := make(map[string]bool)
	for _, bad := range badTransports {
		caught[bad.caught] = true
	}
	for _, name := range semeltest.TransportCases() {
		for _, make := range naive {
			if caught[name] {
				break
			}
			caught[name] = semeltest.TransportCase(t, name, make) != nil
		}
		if !caught[name] {
			t.Errorf("nothing that is wrong fails %q", name)
		}
	}
}
