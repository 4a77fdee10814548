package testserver_test

import (
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/semel-go/semel/testserver"
)

// send posts twice under one key, and tells what came back.
func send(h http.Handler) {
	for range 2 {
		r := httptest.NewRequest("POST", "/charges", strings.NewReader(`{"amount":100}`))
		r.Header.Set("Idempotency-Key", "order-4711")
		w := httptest.NewRecorder()
		h.ServeHTTP(w, r)
		fmt.Printf("%d %s, replayed: %t\n", w.Code, strings.TrimSpace(w.Body.String()), w.Header().Get("Idempotent-Replayed") == "true")
	}
}

func ExampleGuard() {
	charges := 0
	guard := &testserver.Guard{
		Next: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			charges++
			w.WriteHeader(http.StatusCreated)
			fmt.Fprintf(w, "charge %d", charges)
		}),
		Store: new(testserver.MemStore),
		Scope: func(r *http.Request) (string, error) { return "user 7, charges", nil }, // from your authentication
	}
	send(guard)
	// Output:
	// 201 charge 1, replayed: false
	// 201 charge 1, replayed: true
}

// Until the effect starts an error leaves the key free; from then on nothing runs it again.
func ExampleEffectStarting() {
	overloaded := true
	guard := &testserver.Guard{
		Next: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if overloaded {
				overloaded = false
				http.Error(w, "come again", http.StatusServiceUnavailable)
				return
			}
			if err := testserver.EffectStarting(r.Context()); err != nil {
				http.Error(w, "not started", http.StatusServiceUnavailable)
				return
			}
			fmt.Fprint(w, "charged") // here goes the effect
		}),
		Store:  new(testserver.MemStore),
		Scope:  testserver.GlobalScope,
		Effect: testserver.Marked,
	}
	send(guard)
	send(guard)
	// Output:
	// 503 come again, replayed: false
	// 200 charged, replayed: false
	// 200 charged, replayed: true
	// 200 charged, replayed: true
}

// A handler that is a client itself hands its provider a key that stays the same however often it is run.
func ExampleDownstreamKey() {
	guard := &testserver.Guard{
		Next: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			key, err := testserver.DownstreamKey(r.Context(), "provider", "charge")
			if err != nil {
				http.Error(w, "unguarded", http.StatusInternalServerError)
				return
			}
			fmt.Println("to the provider under", key)
			w.WriteHeader(http.StatusBadGateway) // it did not answer
		}),
		Store:  new(testserver.MemStore),
		Scope:  testserver.GlobalScope,
		Effect: testserver.Keyed,
	}
	r := httptest.NewRequest("POST", "/charges", nil)
	r.Header.Set("Idempotency-Key", "order-4711")
	guard.ServeHTTP(httptest.NewRecorder(), r)
	// Output: to the provider under b016ac5d-28b0-8398-a694-fa8e0db22c35
}

func ExampleStart() {
	_ = func(t *testing.T) {
		server := testserver.Start(t, testserver.LoseReply(1)) // of each key's first attempt

		// … let the client under test transfer money to server.URL, and then ask the bank:
		if n := server.Bank.Effects("the key that it used"); n != 1 {
			t.Errorf("the money moved %d times", n)
		}
	}
}

func ExampleNew() {
	server := testserver.New()
	if err := server.Start(); err != nil {
		fmt.Println(err)
		return
	}
	defer server.Close()
	req, _ := http.NewRequestWithContext(context.Background(), "POST", server.URL+"/transfers", strings.NewReader(`{"from":"alice","to":"bob","amount":100}`))
	req.Header.Set("Idempotency-Key", "order-4711")
	for range 2 {
		req.Body, _ = req.GetBody()
		resp, err := server.Client().Do(req)
		if err != nil {
			fmt.Println(err)
			return
		}
		resp.Body.Close()
		fmt.Println(resp.Status, resp.Header.Get("Location"))
	}
	fmt.Println(server.Bank.Effects("order-4711"), "transfer,", server.Bank.Balance("alice"), "left")
	// Output:
	// 201 Created /transfers/1
	// 201 Created /transfers/1
	// 1 transfer, 900 left
}

// Faults are named by the attempt of a key, so that each does the same in every run.
func ExampleAt() {
	server := testserver.New(
		testserver.At(testserver.BeforeClaim, 1, testserver.Status(http.StatusServiceUnavailable, 0)),
		testserver.At(testserver.AfterClaim, 2, testserver.Status(http.StatusTooManyRequests, 0)),
	)
	server.Guard.Effect = testserver.Marked
	for range 4 {
		r := httptest.NewRequest("POST", "/transfers", strings.NewReader(`{"from":"alice","to":"bob","amount":100}`))
		r.Header.Set("Idempotency-Key", "order-4711")
		w := httptest.NewRecorder()
		server.Handler().ServeHTTP(w, r)
		fmt.Println(w.Code, server.Bank.Effects("order-4711"))
	}
	// Output:
	// 503 0
	// 429 0
	// 201 1
	// 201 1
}
