// Queue is a consumer of a queue that delivers at least once. It dies after a payment and before it could acknowledge the
// message; the message comes again, and the money does not move again. What the consumer may believe decides whether it
// acknowledges.
//
// The third message is refused. Its key is derived, so another consumer may have sent it before, and a refusal that says
// nothing of the key proves nothing. The next delivery brings the stored answer, which does.
package main

import (
	"context"
	"errors"
	"fmt"
	"log"
	"net/http"
	"strings"

	"github.com/semel-go/semel"
	"github.com/semel-go/semel/testserver"
)

// A message has an id that stays the same over deliveries. That makes it an operation's name.
type message struct{ id, body string }

func main() {
	log.SetFlags(0)
	bank := testserver.New()
	if err := bank.Start(); err != nil {
		log.Fatal(err)
	}
	defer bank.Close()

	q := &queue{waiting: []message{
		{"m-1", `{"from":"alice","to":"bob","amount":100}`},
		{"m-2", `{"from":"alice","to":"bob","amount":100}`},
		{"m-3", `{"from":"alice","to":"nobody","amount":100}`},
	}}
	dies := true // once, at the worst moment
	for m, ok := q.receive(); ok; m, ok = q.receive() {
		done := handle(bank.URL, m)
		if dies {
			fmt.Println(m.id, "consumer dies before it acknowledges")
			dies = false
			continue
		}
		if done {
			q.acknowledge(m)
		}
	}

	transfers := len(bank.Bank.Transfers())
	fmt.Println("transfers:", transfers)
	if transfers != 2 {
		log.Fatal("each message must be done once")
	}
}

var client semel.Client

// handle reports whether the message is dealt with.
func handle(bank string, m message) bool {
	op := semel.NewOperation(semel.Derive("transfers", m.id))
	req, err := http.NewRequestWithContext(op.Context(context.Background()), http.MethodPost, bank+"/transfers", strings.NewReader(m.body))
	if err != nil {
		log.Fatal(err)
	}
	resp, err := client.Do(req)
	switch {
	case err == nil: // an answer, if it is a refusal, too: a repeat would bring the same
		resp.Body.Close()
		fmt.Printf("%s %d, %s\n", m.id, resp.StatusCode, op.Outcome().String())
		return true
	case errors.Is(err, semel.AppliedEarlier), errors.Is(err, semel.Applied): // done, although the answer is not here
		fmt.Println(m.id, err)
		return true
	default: // not done, or nobody knows: the next delivery asks again under the same key
		fmt.Println(m.id, err)
		return false
	}
}

// A queue delivers its first message until that is acknowledged.
type queue struct{ waiting []message }

func (q *queue) receive() (m message, ok bool) {
	if len(q.waiting) == 0 {
		return m, false
	}
	return q.waiting[0], true
}

func (q *queue) acknowledge(message) { q.waiting = q.waiting[1:] }
