package semel_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"time"

	"github.com/semel-go/semel"
)

// bank is a server that loses its first replies.
func bank(losses int) *httptest.Server {
	done := make(map[string]bool)
	return httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		io.Copy(io.Discard, r.Body)
		key := r.Header.Get("Idempotency-Key")
		if !done[key] {
			done[key] = true
			fmt.Println("the bank moves the money")
		}
		if losses--; losses >= 0 {
			panic(http.ErrAbortHandler)
		}
		w.WriteHeader(http.StatusCreated)
	}))
}

func ExampleClient_Do() {
	srv := bank(2)
	defer srv.Close()
	req, _ := http.NewRequest(http.MethodPost, srv.URL, strings.NewReader(`{"amount": 10}`))
	resp, err := new(semel.Client).Do(req)
	switch {
	case err == nil:
		fmt.Println("answer:", resp.Status)
		resp.Body.Close()
	case errors.Is(err, semel.NotSent), errors.Is(err, semel.NotApplied):
		fmt.Println("nothing happened:", err)
	default:
		fmt.Println("ask again later:", err)
	}
	// Output:
	// the bank moves the money
	// answer: 201 Created
}

func ExampleCheck() {
	srv := bank(1)
	defer srv.Close()
	client := new(semel.Transport).Client()
	resp, err := semel.Check(client.Post(srv.URL, "application/json", strings.NewReader(`{"amount": 10}`)))
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println("answer:", resp.Status)
	resp.Body.Close()
	// Output:
	// the bank moves the money
	// answer: 201 Created
}

// An operation that is saved before it is sent survives a restart.
func ExampleOperation() {
	srv := bank(1)
	defer srv.Close()
	body := `{"amount": 10}`
	request := func() *http.Request {
		req, _ := http.NewRequest(http.MethodPost, srv.URL, strings.NewReader(body))
		return req
	}
	op := semel.NewOperation("")
	if err := op.Bind(request()); err != nil {
		fmt.Println(err)
		return
	}
	saved, _ := json.Marshal(op) // kept beside the body

	impatient := &semel.Client{HTTP: (&semel.Transport{Retry: semel.Policy{MaxAttempts: 1}}).Client()}
	_, err := impatient.Do(request().WithContext(op.Context(context.Background())))
	fmt.Println("unknown:", errors.Is(err, semel.Unknown))

	var again semel.Operation // in the next process
	_ = json.Unmarshal(saved, &again)
	resp, err := impatient.Do(request().WithContext(again.Context(context.Background())))
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println(resp.Status, again.Outcome().String())
	resp.Body.Close()
	// Output:
	// the bank moves the money
	// unknown: true
	// 201 Created applied
}

// A key that exists before the request does, such as one made when a form was rendered.
func ExampleWithKey() {
	srv := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		fmt.Println("key:", r.Header.Get("Idempotency-Key"))
	}))
	defer srv.Close()
	ctx := semel.WithKey(context.Background(), "form-4711")
	req, _ := http.NewRequestWithContext(ctx, http.MethodPost, srv.URL, nil)
	if resp, err := new(semel.Client).Do(req); err == nil {
		resp.Body.Close()
	}
	// Output: key: form-4711
}

// A Dialect is data: name what the API does differently.
func ExampleDialect() {
	srv := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		fmt.Println("key:", r.Header.Get("PayPal-Request-Id"))
	}))
	defer srv.Close()
	tr := &semel.Transport{
		Dialect: semel.Dialect{Header: "PayPal-Request-Id", Lifetime: 6 * time.Hour},
		NewKey:  func(*http.Request) (string, error) { return semel.Derive("capture", "order-17"), nil },
	}
	if resp, err := semel.Check(tr.Client().Post(srv.URL, "", nil)); err == nil {
		resp.Body.Close()
	}
	fmt.Println("the same:", semel.Derive("capture", "order-17"))
	// Output:
	// key: 2c5d4c8b-95f5-84a0-9d3e-554ff3df5a4b
	// the same: 2c5d4c8b-95f5-84a0-9d3e-554ff3df5a4b
}

// A Policy bounds the repeats; a Budget may be shared by all Transports that call the same hosts.
func ExamplePolicy() {
	sends := 0
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		sends++
		w.WriteHeader(http.StatusServiceUnavailable)
	}))
	defer srv.Close()
	shared := &semel.Budget{Max: 100}
	tr := &semel.Transport{Retry: semel.Policy{MaxAttempts: 2, AttemptTimeout: 10 * time.Second, Budget: shared}}
	_, err := semel.Check(tr.Client().Post(srv.URL, "", nil))
	fmt.Println(sends, errors.Is(err, semel.ErrAttempts), errors.Is(err, semel.Unknown))
	// Output: 2 true true
}

// Each judged attempt can be logged.
func ExampleTransport_observe() {
	srv := bank(1)
	defer srv.Close()
	var text bytes.Buffer
	log := slog.New(slog.NewTextHandler(&text, nil))
	tr := &semel.Transport{Observe: func(a semel.Attempt) { log.Info("transfer", "try", a) }}
	if resp, err := semel.Check(tr.Client().Post(srv.URL, "", nil)); err == nil {
		resp.Body.Close()
	}
	fmt.Println(strings.Count(text.String(), "try.key="), "attempts,", strings.Count(text.String(), "try.outcome=applied"), "applied")
	// Output:
	// the bank moves the money
	// 2 attempts, 1 applied
}
