// Twoservers runs two server processes on one database. The first one commits a transfer and dies before it can say so; the
// client asks again, under the same key, and comes to the second one. It has never seen the request, but finds the answer
// beside the money. Run it with the URL of a Postgres database in SEMEL_POSTGRES_URL.
//
// The program is the client, and runs itself twice more as a server.
package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"log"
	"net/http"
	"net/url"
	"os"
	"os/exec"
	"strings"
	"sync/atomic"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/semel-go/semel"
	"github.com/semel-go/semel/testserver"
	"github.com/semel-go/semel/testserver/pgstore"
)

func main() {
	log.SetFlags(0)
	run := transfer
	if len(os.Args) == 2 {
		run = func() error { return serve(os.Args[1]) }
	}
	if err := run(); err != nil {
		log.Fatal(err)
	}
}

// open returns the bank and the store of its keys, in one database, so that they commit together.
func open() (*testserver.Bank, *pgstore.Store, error) {
	config, err := pgxpool.ParseConfig(os.Getenv("SEMEL_POSTGRES_URL"))
	if err != nil {
		return nil, nil, err
	}
	s := &pgstore.Store{}
	s.Configure(config)
	if s.DB, err = pgxpool.NewWithConfig(context.Background(), config); err != nil {
		return nil, nil, err
	}
	ledger := &pgstore.Ledger{DB: s.DB}
	err = errors.Join(s.CreateSchema(context.Background()), ledger.CreateSchema(context.Background()))
	return &testserver.Bank{Ledger: ledger}, s, err
}

// serve is a server process. The one that is mortal dies at its first reply.
func serve(kind string) error {
	bank, store, err := open()
	if err != nil {
		return err
	}
	s := testserver.New()
	s.Bank = bank
	s.Guard = &testserver.Guard{Next: bank, Store: store, Scope: testserver.GlobalScope, Effect: testserver.Transactional}
	if kind == "mortal" {
		s.Guard.Fault = func(_ context.Context, p testserver.Point, _ testserver.Visit) error {
			if p == testserver.AfterSettle {
				os.Exit(1) // no deferred call runs, no connection is closed
			}
			return nil
		}
	}
	if err := s.Start(); err != nil {
		return err
	}
	fmt.Println(s.URL)
	_, _ = os.Stdin.Read(make([]byte, 1)) // until the client is gone
	return nil
}

func transfer() error {
	bank, store, err := open()
	if err != nil {
		return fmt.Errorf("SEMEL_POSTGRES_URL must name a database that this program may use: %w", err)
	}
	defer store.Close()
	bank.Open("alice", 1000)
	bank.Open("bob", 1000)

	balance := &balancer{}
	for _, kind := range []string{"mortal", "immortal"} {
		server, stop, err := start(kind)
		if err != nil {
			return err
		}
		defer stop()
		balance.servers = append(balance.servers, server)
	}
	client := &semel.Client{HTTP: (&semel.Transport{Base: balance}).Client()}
	op := semel.NewOperation("")
	req, err := http.NewRequestWithContext(op.Context(context.Background()), http.MethodPost, "http://bank/transfers",
		strings.NewReader(`{"from":"alice","to":"bob","amount":100}`))
	if err != nil {
		return err
	}
	resp, err := client.Do(req)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	fmt.Printf("client: %s, %s, replayed: %s\n", resp.Status, op.Outcome().String(), resp.Header.Get("Idempotent-Replayed"))
	fmt.Printf("bank: transfers under this key: %d, alice has %d\n", bank.Effects(op.Key()), bank.Balance("alice"))
	if bank.Effects(op.Key()) != 1 || bank.Balance("alice") != 900 {
		return errors.New("the money must move once")
	}
	return nil
}

// start starts a server process and returns its URL.
func start(kind string) (server *url.URL, stop func(), err error) {
	self, err := os.Executable()
	if err != nil {
		return nil, nil, err
	}
	cmd := exec.Command(self, kind)
	cmd.Stderr = os.Stderr
	in, err := cmd.StdinPipe()
	if err != nil {
		return nil, nil, err
	}
	out, err := cmd.StdoutPipe()
	if err == nil {
		err = cmd.Start()
	}
	if err != nil {
		return nil, nil, err
	}
	stop = func() {
		in.Close()
		_ = cmd.Wait() // one of them has died
	}
	line, err := bufio.NewReader(out).ReadString('\n')
	if err != nil {
		stop()
		return nil, nil, fmt.Errorf("the %s server did not start: %w", kind, err)
	}
	server, err = url.Parse(strings.TrimSpace(line))
	return server, stop, err
}

// A balancer sends requests to one server after the other.
type balancer struct {
	servers []*url.URL
	next    atomic.Int64
}

func (b *balancer) RoundTrip(r *http.Request) (*http.Response, error) {
	n := int(b.next.Add(1)-1) % len(b.servers)
	r = r.Clone(r.Context())
	r.URL.Host = b.servers[n].Host
	resp, err := http.DefaultTransport.RoundTrip(r)
	if err != nil {
		fmt.Printf("server %d: no reply\n", n+1)
	} else {
		fmt.Printf("server %d: %s\n", n+1, resp.Status)
	}
	return resp, err
}
