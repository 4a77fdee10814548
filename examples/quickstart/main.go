// Quickstart makes one transfer three ways, through a network that loses the first reply after the money has moved, and
// prints what happened at both ends.
package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"time"

	"github.com/semel-go/semel"
	"github.com/semel-go/semel/testserver"
)

const transfer = `{"from":"alice","to":"bob","amount":100}`

func main() {
	log.SetFlags(0)
	for _, story := range []func() error{adHocRetries, withSemel, silentServer} {
		if err := story(); err != nil {
			log.Fatalf("\nThis must not be: %v", err)
		}
	}
}

// adHocRetries is what many clients do today.
func adHocRetries() error {
	b := open("1. net/http, and a loop that tries again", loseFirstReply)
	defer b.close()
	for range 3 {
		resp, err := http.Post(b.url, "application/json", strings.NewReader(transfer))
		if err != nil {
			b.client("%v: try again", errors.Unwrap(err))
			continue
		}
		resp.Body.Close()
		b.client("%s: it worked, or so it seems", resp.Status)
		break
	}
	return b.expect("the money moved twice", 800)
}

// withSemel is the same with semel in place of the loop.
func withSemel() error {
	b := open("2. semel", loseFirstReply)
	defer b.close()
	c := semel.Client{HTTP: (&semel.Transport{Observe: b.observe}).Client()}

	req, err := http.NewRequest(http.MethodPost, b.url, strings.NewReader(transfer))
	if err != nil {
		return err
	}
	resp, err := c.Do(req)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	return b.expect("the money moved once", 900)
}

// silentServer is a server that does the work and never answers. Nobody can know then, so the operation is kept and
// taken up again later, perhaps by another process.
func silentServer() error {
	b := open("3. semel, and a server that stays silent", staySilent)
	defer b.close()
	t := &semel.Transport{Observe: b.observe}
	t.Retry = semel.Policy{MaxAttempts: 2, AttemptTimeout: 250 * time.Millisecond}
	c := semel.Client{HTTP: t.Client()}

	req, err := http.NewRequest(http.MethodPost, b.url, strings.NewReader(transfer))
	if err != nil {
		return err
	}
	op := semel.NewOperation("")
	if err := op.Bind(req); err != nil {
		return err
	}
	saved, err := json.Marshal(op) // with the body, before anything is sent
	if err != nil {
		return err
	}
	if _, err = c.Do(req.WithContext(op.Context(context.Background()))); !errors.Is(err, semel.Unknown) {
		return fmt.Errorf("the outcome should be unknown, but: %w", err)
	}
	b.client("%v", err)

	b.note("an hour later, in another process, the server speaks again")
	b.silent.Store(false)
	var again semel.Operation
	if err := json.Unmarshal(saved, &again); err != nil {
		return err
	}
	req, err = http.NewRequest(http.MethodPost, b.url, strings.NewReader(transfer))
	if err != nil {
		return err
	}
	resp, err := c.Do(req.WithContext(again.Context(context.Background())))
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	b.client("%s: %s", resp.Status, again.Outcome().String())
	return b.expect("the money moved once", 900)
}

// A bank is a testserver behind a bad network, which draws what passes.
type bank struct {
	*testserver.Server
	diagram
	url    string
	http   *http.Server
	silent atomic.Bool // the network passes no replies
	posts  atomic.Int32
}

type network int

const (
	loseFirstReply network = iota
	staySilent
)

func open(title string, n network) *bank {
	b := &bank{Server: testserver.New(), diagram: newDiagram(title)}
	b.Guard.Optional = true // the loop of the first story sends no key
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		log.Fatal(err)
	}
	b.url = "http://" + l.Addr().String() + "/transfers"
	b.silent.Store(n == staySilent)
	b.http = &http.Server{Handler: b.network(n), ReadHeaderTimeout: time.Minute}
	go func() { _ = b.http.Serve(l) }() // ends when it is closed
	return b
}

func (b *bank) close() { _ = b.http.Close() }

// network lets requests through, and some replies.
func (b *bank) network(n network) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		b.request(r)
		before, reply := b.Balance(), httptest.NewRecorder()
		b.Handler().ServeHTTP(reply, r)
		if moved := before - b.Balance(); moved != 0 {
			b.server("moves %d from alice to bob", moved)
		} else {
			b.server("knows the key, moves nothing")
		}
		switch {
		case n == loseFirstReply && b.posts.Add(1) == 1:
			b.lost(reply.Code)
			panic(http.ErrAbortHandler) // cuts the connection
		case b.silent.Load():
			b.unsaid(reply.Code)
			<-r.Context().Done() // until the client is gone
			panic(http.ErrAbortHandler)
		}
		b.reply(reply.Result())
		for name, values := range reply.Header() {
			w.Header()[name] = values
		}
		w.WriteHeader(reply.Code)
		_, _ = w.Write(reply.Body.Bytes())
	})
}

// Balance returns what alice has.
func (b *bank) Balance() int64 { return b.Bank.Balance("alice") }

func (b *bank) observe(a semel.Attempt) {
	switch {
	case a.Err != nil && !a.Last:
		b.client("attempt %d: no reply; again in %s, under the same key", a.N, a.Wait.Round(time.Millisecond))
	case a.Err != nil:
		b.client("attempt %d: no reply", a.N)
	default:
		b.client("attempt %d: %s, so %s", a.N, a.Verdict.String(), a.Outcome.String())
	}
}

// expect draws the end and compares it with what it must be.
func (b *bank) expect(claim string, alice int64) error {
	got, bob := b.Balance(), b.Bank.Balance("bob")
	b.end("alice has %d, bob has %d: %s", got, bob, claim)
	if got != alice || bob != 2000-alice {
		return fmt.Errorf("alice should have %d", alice)
	}
	return nil
}
