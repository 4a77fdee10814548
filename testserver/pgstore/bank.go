package pgstore

import (
	"context"
	_ "embed"
	"errors"
	"fmt"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/semel-go/semel/testserver"
)

var _ testserver.Ledger = (*Ledger)(nil)

// A Ledger keeps the accounts of a [testserver.Bank] in the tables semel_accounts and semel_transfers. In the work of
// [Store.Transact] its transfers are part of that transaction; elsewhere each is a transaction of its own.
//
//	bank := &testserver.Bank{Ledger: &pgstore.Ledger{DB: pool}}
type Ledger struct {
	DB *pgxpool.Pool
}

//go:embed bank.sql
var bankSchema string

const (
	// Both accounts, in one order, so that transfers in opposite directions do not deadlock.
	lockAccountsSQL = `SELECT id, balance FROM semel_accounts WHERE id IN ($1, $2) ORDER BY id FOR NO KEY UPDATE`

	transferColumns = `id, source, target, amount, coalesce(reference, ''), scope, key, coalesce(once, ''), at`
	transferOnceSQL = `SELECT ` + transferColumns + ` FROM semel_transfers WHERE once = $1`

	moveSQL = `WITH t AS (
  INSERT INTO semel_transfers (source, target, amount, reference, scope, key, once)
  VALUES ($1, $2, $3, nullif($4, ''), $5, $6, nullif($7, '')) ON CONFLICT DO NOTHING RETURNING id, at
), moved AS (
  UPDATE semel_accounts SET balance = balance + CASE WHEN id = $1 THEN -$3 ELSE $3 END
  WHERE id IN ($1, $2) AND EXISTS (SELECT FROM t)
)
SELECT id, at FROM t`
)

// CreateSchema makes the two tables if they are not there. Many processes may call it at once.
func (l *Ledger) CreateSchema(ctx context.Context) error {
	if err := create(ctx, l.DB, bankSchema); err != nil {
		return fmt.Errorf("pgstore: the bank's tables: %w", err)
	}
	return nil
}

func (l *Ledger) Open(ctx context.Context, account string, balance int64) error {
	_, err := l.DB.Exec(ctx, `INSERT INTO semel_accounts VALUES ($1, $2) ON CONFLICT (id) DO UPDATE SET balance = excluded.balance`, account, balance)
	return err
}

// Transfer is two round trips, and two more for a transaction of its own.
func (l *Ledger) Transfer(ctx context.Context, t testserver.Transfer) (testserver.Transfer, error) {
	if tx := Tx(ctx); tx != nil {
		return transfer(ctx, tx, t)
	}
	var done testserver.Transfer
	err := pgx.BeginFunc(ctx, l.DB, func(tx pgx.Tx) (err error) {
		done, err = transfer(ctx, tx, t)
		return err
	})
	return done, err
}

func transfer(ctx context.Context, tx pgx.Tx, t testserver.Transfer) (testserver.Transfer, error) {
	b := &pgx.Batch{}
	b.Queue(lockAccountsSQL, t.From, t.To)
	if t.Once != "" {
		b.Queue(transferOnceSQL, t.Once)
	}
	results := tx.SendBatch(ctx, b)
	defer results.Close()
	balances, err := readBalances(results.Query())
	if err != nil {
		return t, err
	}
	if t.Once != "" {
		earlier, err := scanTransfer(results.QueryRow())
		if !errors.Is(err, pgx.ErrNoRows) {
			return earlier, err
		}
	}
	if err := results.Close(); err != nil {
		return t, err
	}
	return move(ctx, tx, t, balances)
}

func move(ctx context.Context, tx pgx.Tx, t testserver.Transfer, balances map[string]int64) (testserver.Transfer, error) {
	enough := balances[t.From] >= t.Amount
	if len(balances) < 2 {
		return t, testserver.ErrAccount
	}
	if !enough && t.Reference == "" {
		return t, testserver.ErrFunds
	}
	if !enough { // a taken reference is told first
		var taken bool
		err := tx.QueryRow(ctx, `SELECT EXISTS (SELECT FROM semel_transfers WHERE reference = $1)`, t.Reference).Scan(&taken)
		switch {
		case err != nil:
			return t, err
		case taken:
			return t, testserver.ErrReference
		}
		return t, testserver.ErrFunds
	}
	err := tx.QueryRow(ctx, moveSQL, t.From, t.To, t.Amount, t.Reference, []byte(t.Operation.Scope), []byte(t.Operation.Key), t.Once).Scan(&t.ID, &t.At)
	if !errors.Is(err, pgx.ErrNoRows) {
		return t, err
	}
	if t.Once != "" {
		earlier, err := scanTransfer(tx.QueryRow(ctx, transferOnceSQL, t.Once))
		if !errors.Is(err, pgx.ErrNoRows) {
			return earlier, err
		}
	}
	return t, testserver.ErrReference
}

func (l *Ledger) Transfers(ctx context.Context) ([]testserver.Transfer, error) {
	rows, err := l.DB.Query(ctx, `SELECT `+transferColumns+` FROM semel_transfers ORDER BY id`)
	if err != nil {
		return nil, err
	}
	return pgx.CollectRows(rows, func(r pgx.CollectableRow) (testserver.Transfer, error) { return scanTransfer(r) })
}

func (l *Ledger) Balances(ctx context.Context) (map[string]int64, error) {
	return readBalances(l.DB.Query(ctx, `SELECT id, balance FROM semel_accounts`))
}

func readBalances(rows pgx.Rows, err error) (map[string]int64, error) {
	if err != nil {
		return nil, err
	}
	defer rows.Close()
	balances := map[string]int64{}
	for rows.Next() {
		var id string
		var balance int64
		if err := rows.Scan(&id, &balance); err != nil {
			return nil, err
		}
		balances[id] = balance
	}
	return balances, rows.Err()
}

func scanTransfer(r pgx.Row) (t testserver.Transfer, err error) {
	var scope, key []byte
	err = r.Scan(&t.ID, &t.From, &t.To, &t.Amount, &t.Reference, &scope, &key, &t.Once, &t.At)
	t.Operation = testserver.ID{Scope: string(scope), Key: string(key)}
	return t, err
}
