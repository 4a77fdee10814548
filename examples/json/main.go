// Json is a typed client of a JSON API in a dozen lines: one function that sends a value and decodes the answer, and a
// method for each call of the API.
package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log"
	"net/http"

	"github.com/semel-go/semel"
	"github.com/semel-go/semel/testserver"
)

// call sends in and decodes the answer into an Out. Its error is an *semel.Error if there is no answer, and a *refused if
// the answer is a no.
func call[Out any](ctx context.Context, c *semel.Client, method, url string, in any) (out Out, err error) {
	body, err := json.Marshal(in)
	if err != nil {
		return out, err
	}
	req, err := http.NewRequestWithContext(ctx, method, url, bytes.NewReader(body))
	if err != nil {
		return out, err
	}
	req.Header.Set("Content-Type", "application/json")
	resp, err := c.Do(req)
	if err != nil {
		return out, err
	}
	defer resp.Body.Close()
	if resp.StatusCode >= 400 {
		no := &refused{Status: resp.StatusCode}
		return out, errors.Join(no, json.NewDecoder(resp.Body).Decode(no))
	}
	return out, json.NewDecoder(resp.Body).Decode(&out)
}

// refused is a problem document (RFC 9457).
type refused struct {
	Status int    `json:"status"`
	Code   string `json:"code"`
	Title  string `json:"title"`
}

func (r *refused) Error() string { return fmt.Sprintf("%d %s: %s", r.Status, r.Code, r.Title) }

// A Bank is the API. Each call is an operation of its own, unless its context carries one.
type Bank struct {
	URL    string
	client semel.Client
}

// Transfer is what the API calls one.
type Transfer struct {
	ID     int64  `json:"id,omitempty"`
	From   string `json:"from"`
	To     string `json:"to"`
	Amount int64  `json:"amount"`
}

// Transfer moves the money.
func (b *Bank) Transfer(ctx context.Context, t Transfer) (Transfer, error) {
	return call[Transfer](ctx, &b.client, http.MethodPost, b.URL+"/transfers", t)
}

func main() {
	log.SetFlags(0)
	server := testserver.New(testserver.LoseReply(1))
	if err := server.Start(); err != nil {
		log.Fatal(err)
	}
	defer server.Close()

	bank := &Bank{URL: server.URL}
	done, err := bank.Transfer(context.Background(), Transfer{From: "alice", To: "bob", Amount: 100})
	if err != nil {
		log.Fatal(err)
	}
	fmt.Printf("transfer %d: %d from %s to %s\n", done.ID, done.Amount, done.From, done.To)

	_, err = bank.Transfer(context.Background(), Transfer{From: "alice", To: "bob", Amount: 1_000_000})
	var no *refused
	if !errors.As(err, &no) || no.Code != "insufficient_funds" {
		log.Fatalf("alice is not that rich: %v", err)
	}
	fmt.Println(no)

	if alice := server.Bank.Balance("alice"); alice != 900 {
		log.Fatalf("alice has %d", alice)
	}
}
