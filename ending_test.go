package semel

import (
	"context"
	"errors"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
)

// A base may follow its attempt's context in any way that contexts can be followed, whether the caller's can end or not.
var following = map[string]func(context.Context) error{
	"Done": func(ctx context.Context) error { <-ctx.Done(); return ctx.Err() },
	"Done of a derived one": func(ctx context.Context) error {
		ctx, cancel := context.WithCancel(ctx)
		defer cancel()
		<-ctx.Done()
		return ctx.Err()
	},
	"the cause": func(ctx context.Context) error {
		ctx, cancel := context.WithCancelCause(ctx)
		defer cancel(nil)
		<-ctx.Done()
		return context.Cause(ctx)
	},
	"Err, time and again": func(ctx context.Context) error {
		for range 100_000 {
			if ctx.Err() != nil {
				break
			}
			time.Sleep(time.Millisecond)
		}
		return ctx.Err()
	},
	"AfterFunc": func(ctx context.Context) error {
		end := make(chan struct{})
		context.AfterFunc(ctx, func() { close(end) })
		<-end
		return ctx.Err()
	},
	"several, one given up": func(ctx context.Context) error {
		defer context.AfterFunc(ctx, func() {})()
		first, cancel := context.WithCancel(ctx)
		second, end := context.WithTimeout(ctx, time.Hour)
		defer end()
		cancel()
		cancel()
		<-first.Done()
		<-second.Done()
		return second.Err()
	},
}

func followed(follow func(context.Context) error) roundTripper {
	return func(req *http.Request) (*http.Response, error) {
		req.Body.Close()
		return nil, follow(req.Context())
	}
}

func TestHoweverTheBaseFollowsItsContextTheAttemptTimesOut(t *testing.T) {
	for name, follow := range following {
		for parent, ctx := range map[string]func() (context.Context, context.CancelFunc){
			"never ends": func() (context.Context, context.CancelFunc) { return context.Background(), func() {} },
			"could end":  func() (context.Context, context.CancelFunc) { return context.WithCancel(context.Background()) },
		} {
			t.Run(name+"/the caller's "+parent, func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					ctx, cancel := ctx()
					defer cancel()
					req, err := http.NewRequestWithContext(ctx, "POST", "http://host.invalid/", strings.NewReader("x"))
					require.NoError(t, err)
					begun := time.Now()
					tr := &Transport{Base: followed(follow), Retry: Policy{AttemptTimeout: 10 * time.Second, MaxAttempts: 1}}
					_, err = tr.RoundTrip(req)
					require.ErrorIs(t, err, errAttemptTimeout)
					require.False(t, errors.Is(err, context.Canceled), "nobody cancelled it: %v", err)
					require.Less(t, time.Since(begun)-10*time.Second, time.Second)
				})
			})
		}
	}
}

// What the base began for an attempt ends with it, whatever the attempt brought.
func TestWhoStillFollowsAnAttemptThatIsOverIsLetGo(t *testing.T) {
	for name, follow := range following {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				ended := make(chan error, 1)
				tr := &Transport{Base: roundTripper(func(req *http.Request) (*http.Response, error) {
					req.Body.Close()
					go func() { ended <- follow(req.Context()) }()
					synctest.Wait()
					return &http.Response{StatusCode: 200, Body: http.NoBody, Request: req}, nil
				})}
				req, err := http.NewRequest("POST", "http://host.invalid/", strings.NewReader("x"))
				require.NoError(t, err)
				begun := time.Now()
				_, err = tr.RoundTrip(req)
				require.NoError(t, err)
				require.ErrorIs(t, <-ended, context.Canceled)
				require.Less(t, time.Since(begun), time.Second)
			})
		})
	}
}

func TestWhoFollowsAnAttemptTooLateIsTold(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var ctx context.Context
		tr := &Transport{Base: roundTripper(func(req *http.Request) (*http.Response, error) {
			req.Body.Close()
			ctx = req.Context()
			<-ctx.Done()
			return nil, ctx.Err()
		}), Retry: Policy{MaxAttempts: 1}}
		req, err := http.NewRequest("POST", "http://host.invalid/", strings.NewReader("x"))
		require.NoError(t, err)
		_, err = tr.RoundTrip(req)
		require.ErrorIs(t, err, errAttemptTimeout)
		for _, follow := range following {
			require.ErrorIs(t, follow(ctx), context.Canceled)
		}
	})
}
