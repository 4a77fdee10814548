package semeltest_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"syscall"
	"time"

	"github.com/semel-go/semel"
	"github.com/semel-go/semel/semeltest"
	"github.com/semel-go/semel/testserver"
)

// A case of one's own: the first reply is lost, and the repeat gets it.
func ExampleWorld() {
	bank := testserver.New()
	world := &semeltest.World{Handler: bank.Handler(), Faults: []semeltest.Fault{semeltest.LoseReply(1)}}
	defer world.Close()

	client := &semel.Client{HTTP: (&semel.Transport{Base: world}).Client()}
	req, err := http.NewRequest("POST", "http://bank/transfers", strings.NewReader(`{"from":"alice","to":"bob","amount":100}`))
	if err != nil {
		panic(err)
	}
	resp, err := client.Do(req)
	if err != nil {
		panic(err)
	}
	resp.Body.Close()
	fmt.Println(resp.StatusCode, "replayed:", resp.Header.Get("Idempotent-Replayed"))
	fmt.Println("transfers:", len(bank.Bank.Transfers()))
	// Output:
	// 201 replayed: true
	// transfers: 1
}

// What happened can be asserted, or drawn.
func ExampleWorld_history() {
	world := &semeltest.World{
		Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { w.WriteHeader(http.StatusCreated) }),
		Faults:  []semeltest.Fault{semeltest.Reply(1, http.StatusServiceUnavailable, 0)},
	}
	defer world.Close()
	for range 2 {
		req, err := http.NewRequest("POST", "http://api/orders", nil)
		if err != nil {
			panic(err)
		}
		req.Header.Set("Idempotency-Key", "order-7")
		resp, err := world.RoundTrip(req)
		if err != nil {
			panic(err)
		}
		resp.Body.Close()
	}
	for _, e := range world.History().Events() {
		if e.Kind == "reply" {
			fmt.Println("attempt", e.N, "of", e.Key, "got", e.Status)
		}
	}
	// Output:
	// attempt 1 of order-7 got 503
	// attempt 2 of order-7 got 201
}

// A transport that turns replies into errors, and what the kit finds first. In a test, TestTransport takes no time.
func ExampleCheckTransport() {
	strict := func(base http.RoundTripper) http.RoundTripper {
		return roundTrip(func(r *http.Request) (*http.Response, error) {
			resp, err := base.RoundTrip(r)
			if err == nil && resp.StatusCode >= 500 {
				resp.Body.Close()
				return nil, errors.New(resp.Status)
			}
			return resp, err
		})
	}
	ctx, cancel := context.WithTimeout(context.Background(), 3*time.Second) // enough for the first cases
	defer cancel()
	err := semeltest.CheckTransport(ctx, strict)
	var found *semeltest.Violation
	if errors.As(err, &found) {
		fmt.Println(found.Rule)
		fmt.Println(strings.Split(found.Found, "\n")[0])
	}
	// Output:
	// RoundTrip returns a nil error if it obtained a response, whatever its status.
	// a server that always answers 500 is an error: 500 Internal Server Error
}

// A store that keeps bodies only up to a limit.
func ExampleCheckStore() {
	store := answering(func(a *testserver.Answer) { a.Body = a.Body[:min(len(a.Body), 64<<10)] })
	err := semeltest.CheckStore(context.Background(), store)
	var found *semeltest.Violation
	if errors.As(err, &found) {
		fmt.Println(found.Case)
		fmt.Println(found.Rule)
		fmt.Println(found.Found)
	}
	// Output:
	// settle/large answers are kept whole
	// An answer of a megabyte comes back byte by byte.
	// the body is another one
}

// A server that knows no keys, and the first thing that the kit finds.
func ExampleCheckServer() {
	orders := new(counter)
	ctx, cancel := context.WithTimeout(context.Background(), 3*time.Second) // enough for the first cases
	defer cancel()
	err := semeltest.CheckServer(ctx, semeltest.Server{
		Handler: http.HandlerFunc(orders.careless),
		Request: func(n int) *http.Request {
			req, _ := http.NewRequest("POST", fmt.Sprintf("/orders/%d", n), strings.NewReader(`{"item":"book"}`))
			return req
		},
		Effects: func(n int) int { return orders.count(fmt.Sprintf("/orders/%d", n)) },
	})
	var found *semeltest.Violation
	if errors.As(err, &found) {
		fmt.Println(found.Case)
		fmt.Println(strings.Split(found.Found, "\n")[0])
	}
	// Output:
	// answer/a repeat gets the same
	// the operation has had 2 effects, not 1
}

// Real connections break by the same plans.
func ExampleProxy() {
	proxy := &semeltest.Proxy{Plan: func(conn int) semeltest.Plan {
		if conn == 1 {
			return semeltest.Plan{Down: semeltest.Cut{End: semeltest.FIN}} // nothing comes back
		}
		return semeltest.Plan{}
	}}
	defer proxy.Close()
	server := testserver.New()
	if err := server.Start(); err != nil {
		panic(err)
	}
	defer server.Close()

	client := &http.Client{Transport: &http.Transport{DialContext: proxy.DialContext, DisableKeepAlives: true}}
	_, err := client.Get(server.URL + "/accounts/alice")
	fmt.Println(errors.Is(err, io.EOF))
	resp, err := client.Get(server.URL + "/accounts/alice")
	if err != nil {
		panic(err)
	}
	resp.Body.Close()
	fmt.Println(resp.Status)
	// Output:
	// true
	// 200 OK
}

// Connections in memory break at any byte.
func ExampleNetwork() {
	network := &semeltest.Network{Plan: func(conn int) semeltest.Plan {
		return semeltest.Plan{Down: semeltest.Cut{After: 17, End: semeltest.RST}}
	}}
	server := &http.Server{Handler: http.NotFoundHandler()}
	defer server.Close()
	listener := network.Listen()
	go func() { _ = server.Serve(listener) }()

	client := &http.Client{Transport: &http.Transport{DialContext: network.DialContext}}
	_, err := client.Get("http://anywhere/")
	fmt.Println(errors.Is(err, syscall.ECONNRESET))
	// Output: true
}
