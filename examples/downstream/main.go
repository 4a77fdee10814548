// Downstream is a server that is itself a client: an order charges the customer at the bank and sends a receipt. It dies
// between the two and is asked again. The keys that it gives its providers come from the key that it was given, so the
// second run finds the charge made and sends the one receipt.
package main

import (
	"context"
	"errors"
	"fmt"
	"log"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"

	"github.com/semel-go/semel"
	"github.com/semel-go/semel/testserver"
)

func main() {
	log.SetFlags(0)
	bank := testserver.New(testserver.LoseReply(1))
	if err := bank.Start(); err != nil {
		log.Fatal(err)
	}
	defer bank.Close()

	var mails atomic.Int32
	post := httptest.NewServer(&testserver.Guard{Store: new(testserver.MemStore), Scope: testserver.GlobalScope, Next: http.HandlerFunc(
		func(w http.ResponseWriter, r *http.Request) {
			fmt.Println("post office: mail", mails.Add(1), "goes out")
			w.WriteHeader(http.StatusAccepted)
		})})
	defer post.Close()

	s := &shop{bank: bank.URL, post: post.URL}
	// Keyed promises that every effect of the handler is idempotent under a DownstreamKey, so it may be run again.
	orders := &testserver.Guard{Next: s, Effect: testserver.Keyed, Store: new(testserver.MemStore), Scope: testserver.GlobalScope}
	front := httptest.NewServer(orders)
	defer front.Close()

	op := semel.NewOperation("")
	for range 2 { // the customer's app asks once more, long after
		if err := order(front.URL, op); err != nil {
			log.Fatal(err)
		}
	}

	charges := len(bank.Bank.Transfers())
	fmt.Printf("runs %d, charges %d, mails %d\n", s.runs.Load(), charges, mails.Load())
	if charges != 1 || mails.Load() != 1 {
		log.Fatal("one order is one charge and one mail")
	}
}

// A shop handles orders, behind a guard.
type shop struct {
	bank, post string
	client     semel.Client
	runs       atomic.Int32
}

func (s *shop) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	run := s.runs.Add(1)
	fmt.Println("shop: run", run)
	if err := s.send(r.Context(), "bank", s.bank+"/transfers", `{"from":"alice","to":"bob","amount":100}`); err != nil {
		s.giveUp(w, err)
		return
	}
	fmt.Println("shop: charged")
	if run == 1 {
		fmt.Println("shop: dies")
		panic(http.ErrAbortHandler)
	}
	if err := s.send(r.Context(), "post", s.post, `{"to":"alice","text":"thank you"}`); err != nil {
		s.giveUp(w, err)
		return
	}
	w.WriteHeader(http.StatusCreated)
}

// send does one step at a provider. The same step of the same order has the same key in every run of every process.
func (s *shop) send(ctx context.Context, provider, url, body string) error {
	key, err := testserver.DownstreamKey(ctx, provider, "order")
	if err != nil {
		return err
	}
	req, err := http.NewRequestWithContext(semel.WithKey(ctx, key), http.MethodPost, url, strings.NewReader(body))
	if err != nil {
		return err
	}
	resp, err := s.client.Do(req)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	if resp.StatusCode >= 300 {
		return &refusal{provider, resp.StatusCode}
	}
	return nil
}

// A refusal is a provider's definite no.
type refusal struct {
	provider string
	status   int
}

func (r *refusal) Error() string { return fmt.Sprintf("the %s refused: %d", r.provider, r.status) }

// giveUp stores a definite no as the order's answer. Anything else is a 503, after which the guard lets the order be tried
// again under its key.
func (s *shop) giveUp(w http.ResponseWriter, err error) {
	status := http.StatusServiceUnavailable
	var no *refusal
	if errors.As(err, &no) {
		status = http.StatusPaymentRequired
	}
	http.Error(w, err.Error(), status)
}

// order is the customer's app.
func order(shop string, op *semel.Operation) error {
	req, err := http.NewRequestWithContext(op.Context(context.Background()), http.MethodPost, shop+"/orders", strings.NewReader(`{"item":"book"}`))
	if err != nil {
		return err
	}
	resp, err := new(semel.Client).Do(req)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	fmt.Printf("app: %d, %s\n", resp.StatusCode, op.Outcome().String())
	return nil
}
