package pgstore

import (
	"context"
	_ "embed"
	"fmt"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/semel-go/semel/testserver"
)

// Schema is the SQL that makes the table semel_keys, for those who migrate by other means.
//
//go:embed schema.sql
var Schema string

// CreateSchema makes the table semel_keys if it is not there. Many processes may call it at once.
func CreateSchema(ctx context.Context, db *pgxpool.Pool) error {
	return (&Store{DB: db}).CreateSchema(ctx)
}

// CreateSchema makes the store's table if it is not there, and checks that a table which is there has the right shape
// and may be written. Many processes may call it at once.
func (s *Store) CreateSchema(ctx context.Context) error {
	table := orElse(s.Table, "semel_keys")
	index := table[strings.LastIndexByte(table, '.')+1:] + "_expires_at"
	schema := strings.NewReplacer("semel_keys_expires_at", quoted(index), "semel_keys", quoted(table)).Replace(Schema)
	if err := create(ctx, s.DB, schema); err != nil {
		return s.failTable(err)
	}
	return s.check(ctx)
}

// create runs CREATE … IF NOT EXISTS statements, as one transaction.
func create(ctx context.Context, db *pgxpool.Pool, schema string) error {
	for try := 1; ; try++ {
		_, err := db.Exec(ctx, schema, pgx.QueryExecModeSimpleProtocol)
		if err == nil || !createdByAnother(err) || try == 20 || pause(ctx, try, 20*time.Millisecond) != nil {
			return err
		}
	}
}

// createdByAnother: IF NOT EXISTS does not see what another transaction is just creating; its commit then makes ours fail.
func createdByAnother(err error) bool {
	switch code(err) {
	case "23505", "42P07", "42710", "XX000", "40001", "40P01", "55P03":
		return true
	}
	return false
}

// check claims a random key in a transaction that is rolled back, and has the other statements analyzed.
func (s *Store) check(ctx context.Context) error {
	conn, err := s.acquire(ctx)
	if err != nil {
		return s.failTable(err)
	}
	defer conn.Release()
	q := s.statements()
	for _, sql := range []string{q.read, q.takeover, q.lapse, q.overwrite, q.settle, q.free, q.renew, q.purge} {
		if _, err := conn.Conn().PgConn().Prepare(ctx, "", sql, nil); err != nil {
			return s.failTable(err)
		}
	}
	owner := testserver.NewOwner()
	c := testserver.Claim{ID: testserver.ID{Scope: "check", Key: string(owner[:])}, Owner: owner}
	tx, err := conn.Begin(ctx)
	if err != nil {
		return s.failTable(err)
	}
	defer tx.Rollback(context.WithoutCancel(ctx))
	if _, err := tx.Exec(ctx, q.insert, append(claimArgs(c), false)...); err != nil {
		return s.failTable(err)
	}
	return nil
}

func (s *Store) failTable(err error) error {
	if advice := s.advice(err); advice != "" {
		return fmt.Errorf("pgstore: table %s: %s: %w", s.statements().table, advice, err)
	}
	return fmt.Errorf("pgstore: table %s: %w", s.statements().table, err)
}
