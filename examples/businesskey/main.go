// Businesskey pays orders under keys that are derived from the orders, so that a job that runs twice pays once, while two
// orders of equal content stay two.
package main

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"log"
	"net/http"

	"github.com/semel-go/semel"
	"github.com/semel-go/semel/testserver"
)

type order struct {
	ID     string
	Amount int64
}

func main() {
	log.SetFlags(0)
	bank := testserver.New(testserver.LoseReply(1)) // of each key
	if err := bank.Start(); err != nil {
		log.Fatal(err)
	}
	defer bank.Close()

	orders := []order{{"A-1", 100}, {"A-2", 100}} // as equal as two orders can be
	for run := range 2 {
		for _, o := range orders {
			outcome, err := pay(bank.URL, o)
			if err != nil {
				log.Fatal(err)
			}
			fmt.Printf("run %d: order %s: %s\n", run+1, o.ID, outcome.String())
		}
	}

	transfers, balance := len(bank.Bank.Transfers()), bank.Bank.Balance("alice")
	fmt.Printf("%d transfers, alice has %d\n", transfers, balance)
	if transfers != 2 || balance != 800 {
		log.Fatal("two orders must be paid once each")
	}
}

var client semel.Client

// pay names what is done and the order, and nothing else: the amount may be corrected later, and a timestamp would make
// each run another operation.
func pay(bank string, o order) (semel.Outcome, error) {
	body, err := json.Marshal(map[string]any{"from": "alice", "to": "bob", "amount": o.Amount})
	if err != nil {
		return 0, err
	}
	op := semel.NewOperation(semel.Derive("pay", o.ID))
	req, err := http.NewRequestWithContext(op.Context(context.Background()), http.MethodPost, bank+"/transfers", bytes.NewReader(body))
	if err != nil {
		return 0, err
	}
	resp, err := client.Do(req)
	if err != nil {
		return 0, err
	}
	defer resp.Body.Close()
	if resp.StatusCode != http.StatusCreated {
		return 0, fmt.Errorf("order %s: the bank said %s", o.ID, resp.Status)
	}
	return op.Outcome(), nil
}
