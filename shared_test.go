package semel_test

import (
	"context"
	"errors"
	"io"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/semel-go/semel"
)

type roundTripper func(*http.Request) (*http.Response, error)

func (f roundTripper) RoundTrip(r *http.Request) (*http.Response, error) { return f(r) }

// Who shares an operation cannot be told that it has had no effect while somebody else may still send it.
func TestARefusalIsNotTheEndWhileAnotherCallWaitsToSendAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		sent := 0
		base := roundTripper(func(r *http.Request) (*http.Response, error) {
			sent++
			status := [...]int{429, 401, 201}[sent-1]
			return &http.Response{StatusCode: status, Header: make(http.Header), Body: http.NoBody, Request: r}, nil
		})
		c := &semel.Client{HTTP: (&semel.Transport{Base: base}).Client()}
		op := semel.NewOperation("")
		do := func() error {
			r, _ := http.NewRequestWithContext(op.Context(context.Background()), http.MethodPost, "http://bank/", strings.NewReader("x"))
			resp, err := c.Do(r)
			if err == nil {
				resp.Body.Close()
			}
			return err
		}
		other := make(chan error, 1)
		go func() { other <- do() }()
		synctest.Wait() // it has got its 429 and waits
		if err := do(); !errors.Is(err, semel.Unknown) {
			t.Errorf("the caller that was refused is told %v", err)
		}
		if err := <-other; err != nil || op.Outcome() != semel.Applied {
			t.Errorf("the other one is told %v, and the outcome is %v", err, op.Outcome())
		}
		time.Sleep(time.Second)
	})
}

// A dialect whose failures roll back has one that does not say so.
func TestACommitInDoubtIsNotARollback(t *testing.T) {
	for code, outcome := range map[string]semel.Outcome{"store_unavailable": semel.NotApplied, "commit_in_doubt": semel.Unknown} {
		base := roundTripper(func(r *http.Request) (*http.Response, error) {
			h := http.Header{"Content-Type": {"application/problem+json"}}
			body := io.NopCloser(strings.NewReader(`{"code":"` + code + `"}`))
			return &http.Response{StatusCode: http.StatusServiceUnavailable, Header: h, Body: body, ContentLength: -1, Request: r}, nil
		})
		transport := &semel.Transport{Base: base, Dialect: semel.Dialect{FailuresRollBack: true}, Retry: semel.Policy{MaxAttempts: 1}}
		r, _ := http.NewRequestWithContext(t.Context(), http.MethodPost, "http://bank/", strings.NewReader("x"))
		if _, err := (&semel.Client{HTTP: transport.Client()}).Do(r); !errors.Is(err, outcome) {
			t.Errorf("after %s the caller is told %v", code, err)
		}
	}
}
