// Consumer takes messages from a queue that delivers at least once, without any HTTP. A message's id is its key. Stock is
// in the same database as the keys, so taking it and remembering that it was taken commit together; mail is not, so
// sending it is claimed first and never repeated once it may have gone out. Run it with the URL of a Postgres database
// in SEMEL_POSTGRES_URL.
package main

import (
	"context"
	"errors"
	"fmt"
	"log"
	"os"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/semel-go/semel/testserver"
	"github.com/semel-go/semel/testserver/pgstore"
)

func main() {
	log.SetFlags(0)
	if err := run(context.Background()); err != nil {
		log.Fatal(err)
	}
}

func run(ctx context.Context) error {
	config, err := pgxpool.ParseConfig(os.Getenv("SEMEL_POSTGRES_URL"))
	if err != nil {
		return err
	}
	s := &pgstore.Store{Table: "consumed_messages"}
	s.Configure(config)
	if s.DB, err = pgxpool.NewWithConfig(ctx, config); err != nil {
		return err
	}
	defer s.DB.Close()
	defer s.Close()
	if err := s.CreateSchema(ctx); err != nil {
		return fmt.Errorf("SEMEL_POSTGRES_URL must name a database that this program may use: %w", err)
	}
	if _, err := s.DB.Exec(ctx, `CREATE TABLE IF NOT EXISTS stock (item text PRIMARY KEY, pieces int NOT NULL)`); err != nil {
		return err
	}
	if _, err := s.DB.Exec(ctx, `INSERT INTO stock VALUES ('lamp', 5) ON CONFLICT (item) DO UPDATE SET pieces = 5`); err != nil {
		return err
	}
	c := &consumer{store: s, run: time.Now().UTC().Format(time.RFC3339Nano)}
	for _, message := range []string{"m-1", "m-2", "m-1", "m-2"} { // the queue delivers each twice
		if err := errors.Join(c.take(ctx, message), c.mail(ctx, message)); err != nil {
			return err // not acknowledged: it will come again
		}
	}
	var pieces int
	if err := s.DB.QueryRow(ctx, `SELECT pieces FROM stock WHERE item = 'lamp'`).Scan(&pieces); err != nil {
		return err
	}
	fmt.Println("lamps:", pieces, "mails:", c.mails)
	if pieces != 3 || c.mails != 2 {
		return errors.New("each message must be done once")
	}
	return nil
}

type consumer struct {
	store *pgstore.Store
	run   string
	mails int
}

// claim of a message by one of its handlers. The scope keeps handlers apart, the fingerprint would tell messages apart
// that share an id by mistake.
func (c *consumer) claim(handler, message string) testserver.Claim {
	return testserver.Claim{ID: testserver.ID{Scope: c.run + handler, Key: message}, Owner: testserver.NewOwner(),
		Lease: 30 * time.Second, Retention: 7 * 24 * time.Hour}
}

// take does its work in the transaction that remembers the message.
func (c *consumer) take(ctx context.Context, message string) error {
	claim := c.claim("stock", message)
	r, err := c.store.Transact(ctx, claim, time.Second, func(ctx context.Context) (*testserver.Answer, error) {
		_, err := pgstore.Tx(ctx).Exec(ctx, `UPDATE stock SET pieces = pieces - 1 WHERE item = 'lamp'`)
		return &testserver.Answer{Status: 200}, err
	})
	if err != nil {
		return err
	}
	fmt.Println(message, "stock", done(r.Owner == claim.Owner))
	return nil
}

// mail does its work under a claim. Longer work would call Renew meanwhile.
func (c *consumer) mail(ctx context.Context, message string) error {
	claim := c.claim("mail", message)
	claim.Started = true // never again, even if this process dies in between: then it is for people to look
	r, err := c.store.Claim(ctx, claim)
	switch {
	case err != nil:
		return err
	case r.HeldBy(claim.Owner):
		c.mails++
		err = c.store.Settle(context.WithoutCancel(ctx), r.Hold(), testserver.Settlement{State: testserver.Completed, Answer: &testserver.Answer{Status: 200}})
	case r.State == testserver.Pending:
		return errors.New("another consumer is at it")
	case r.State == testserver.Unknown:
		fmt.Println(message, "mail: nobody knows")
		return nil
	}
	fmt.Println(message, "mail", done(r.Owner == claim.Owner))
	return err
}

func done(now bool) string {
	if now {
		return "done"
	}
	return "was done"
}
