package pgstore_test

import (
	"context"
	"fmt"
	"log"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/semel-go/semel/testserver"
	"github.com/semel-go/semel/testserver/pgstore"
	"github.com/semel-go/semel/testserver/pgstore/pgtest"
)

// An exampleTB lets pgtest give a database to an example, which has no testing.TB.
type exampleTB struct {
	testing.TB
	ends []func()
}

func (*exampleTB) Helper()                        {}
func (*exampleTB) Context() context.Context       { return context.Background() }
func (*exampleTB) Fatal(args ...any)              { log.Fatal(args...) }
func (*exampleTB) Fatalf(format string, a ...any) { log.Fatalf(format, a...) }
func (e *exampleTB) Cleanup(end func())           { e.ends = append(e.ends, end) }

func (e *exampleTB) end() {
	for i := len(e.ends) - 1; i >= 0; i-- {
		e.ends[i]()
	}
}

// The effect of a message, here a row of a table, commits together with the message's id. When the queue delivers it
// again the effect is not repeated.
func ExampleStore_Transact() {
	tb := &exampleTB{}
	defer tb.end()
	ctx := context.Background()
	store := &pgstore.Store{}
	config, err := pgxpool.ParseConfig(pgtest.DSN(tb))
	if err != nil {
		log.Fatal(err)
	}
	store.Configure(config)
	if store.DB, err = pgxpool.NewWithConfig(ctx, config); err != nil {
		log.Fatal(err)
	}
	defer store.DB.Close()
	defer store.Close()
	if err := store.CreateSchema(ctx); err != nil {
		log.Fatal(err)
	}
	if _, err := store.DB.Exec(ctx, `CREATE TABLE orders (id text)`); err != nil {
		log.Fatal(err)
	}

	for _, message := range []string{"m-1", "m-2", "m-1"} {
		claim := testserver.Claim{ID: testserver.ID{Scope: "orders", Key: message}, Owner: testserver.NewOwner(), Retention: 7 * 24 * time.Hour}
		r, err := store.Transact(ctx, claim, time.Second, func(ctx context.Context) (*testserver.Answer, error) {
			_, err := pgstore.Tx(ctx).Exec(ctx, `INSERT INTO orders VALUES ($1)`, message)
			return &testserver.Answer{Status: 200}, err
		})
		if err != nil {
			log.Fatal(err) // not acknowledged, so it will come again
		}
		fmt.Println(message, "done now:", r.Owner == claim.Owner)
	}
	var orders int
	if err := store.DB.QueryRow(ctx, `SELECT count(*) FROM orders`).Scan(&orders); err != nil {
		log.Fatal(err)
	}
	fmt.Println("orders:", orders)
	// Output:
	// m-1 done now: true
	// m-2 done now: true
	// m-1 done now: false
	// orders: 2
}

// A bank whose accounts are in the same database as its keys.
func ExampleLedger() {
	tb := &exampleTB{}
	defer tb.end()
	ctx := context.Background()
	pool, err := pgxpool.New(ctx, pgtest.DSN(tb))
	if err != nil {
		log.Fatal(err)
	}
	defer pool.Close()
	store, ledger := &pgstore.Store{DB: pool}, &pgstore.Ledger{DB: pool}
	defer store.Close()
	if err := store.CreateSchema(ctx); err != nil {
		log.Fatal(err)
	}
	if err := ledger.CreateSchema(ctx); err != nil {
		log.Fatal(err)
	}
	bank := &testserver.Bank{Ledger: ledger}
	bank.Open("alice", 1000)
	bank.Open("bob", 1000)

	guard := &testserver.Guard{Next: bank, Store: store, Scope: testserver.GlobalScope, Effect: testserver.Transactional}
	for range 2 {
		r := httptest.NewRequest("POST", "/transfers", strings.NewReader(`{"from":"alice","to":"bob","amount":100}`))
		r.Header.Set("Idempotency-Key", "k-1")
		w := httptest.NewRecorder()
		guard.ServeHTTP(w, r)
		fmt.Println(w.Code, "replayed:", w.Header().Get("Idempotent-Replayed") == "true")
	}
	fmt.Println("alice has", bank.Balance("alice"))
	// Output:
	// 201 replayed: false
	// 201 replayed: true
	// alice has 900
}
