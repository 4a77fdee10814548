package pgstore

import (
	"context"
	"errors"
	"strconv"
	"sync"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
)

// ErrNotYours is returned by Commit and Rollback of the transaction that work gets.
var ErrNotYours = errors.New("pgstore: Transact commits or rolls back by the answer; return an error to roll back")

type txKey struct{}

// Tx returns the transaction in which the work of [Store.Transact] runs, or nil outside of one. It must not be used after
// the work has returned. Commit and Rollback are refused; Begin makes a savepoint, whose Commit and Rollback work.
func Tx(ctx context.Context) pgx.Tx {
	if t, ok := ctx.Value(txKey{}).(*tx); ok {
		return t
	}
	return nil
}

// A tx is the transaction as work sees it, or a savepoint in it. It keeps the errors of statements, since what work makes
// of them does not change what the server makes of the transaction.
type tx struct {
	conn    *pgx.Conn
	inner   pgx.Tx // never told how it ended
	parent  *tx    // nil for the transaction itself
	aborted bool
	saved   bool // there is a savepoint between the claim and the work

	mu    sync.Mutex // guards all below
	over  bool
	depth int
	err   error // the first since the transaction or its last savepoint began
	rerun bool  // one was a serialization failure or a deadlock
}

func (t *tx) root() *tx {
	for t.parent != nil {
		t = t.parent
	}
	return t
}

func (t *tx) end() {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.over = true
}

// closed is nil as long as the transaction may be used.
func (t *tx) closed() error {
	for at := t; at != nil; at = at.parent {
		at.mu.Lock()
		over := at.over
		at.mu.Unlock()
		if over {
			return pgx.ErrTxClosed
		}
	}
	return nil
}

// note remembers an error and hands it on.
func (t *tx) note(err error) error {
	if code(err) == "" {
		return err
	}
	t = t.root()
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.err == nil || code(t.err) == "25P02" { // which only says that there was one before
		t.err = err
	}
	t.rerun = t.rerun || again(err)
	return err
}

func (t *tx) askedAgain() bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.rerun
}

func (t *tx) first() error {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.err == nil {
		return errors.New("the transaction is aborted")
	}
	return t.err
}

// forget drops the errors that a rollback to a savepoint has undone.
func (t *tx) forget() {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.err, t.rerun = nil, false
}

func (t *tx) Begin(ctx context.Context) (pgx.Tx, error) {
	root := t.root()
	root.mu.Lock()
	root.depth++
	sp := &tx{conn: t.conn, inner: t.inner, parent: t, depth: root.depth}
	root.mu.Unlock()
	if _, err := t.Exec(ctx, "SAVEPOINT "+sp.name()); err != nil {
		return nil, err
	}
	return sp, nil
}

func (t *tx) name() string { return "semel_" + strconv.Itoa(t.depth) }

func (t *tx) Commit(ctx context.Context) error {
	if t.parent == nil {
		return ErrNotYours
	}
	if err := t.closed(); err != nil {
		return err
	}
	t.end()
	_, err := t.parent.Exec(ctx, "RELEASE SAVEPOINT "+t.name())
	return err
}

func (t *tx) Rollback(ctx context.Context) error {
	if t.parent == nil {
		return ErrNotYours
	}
	if err := t.closed(); err != nil {
		return err
	}
	t.end()
	_, err := t.parent.Exec(ctx, "ROLLBACK TO SAVEPOINT "+t.name())
	if err == nil {
		t.root().forget()
	}
	return err
}

func (t *tx) Exec(ctx context.Context, sql string, args ...any) (pgconn.CommandTag, error) {
	if err := t.closed(); err != nil {
		return pgconn.CommandTag{}, err
	}
	tag, err := t.conn.Exec(ctx, sql, args...)
	return tag, t.note(err)
}

func (t *tx) Query(ctx context.Context, sql string, args ...any) (pgx.Rows, error) {
	if err := t.closed(); err != nil {
		return nil, err
	}
	rows, err := t.conn.Query(ctx, sql, args...)
	return &txRows{rows, t}, t.note(err)
}

func (t *tx) QueryRow(ctx context.Context, sql string, args ...any) pgx.Row {
	if err := t.closed(); err != nil {
		return errRow{err}
	}
	return txRow{t.conn.QueryRow(ctx, sql, args...), t}
}

func (t *tx) CopyFrom(ctx context.Context, table pgx.Identifier, columns []string, source pgx.CopyFromSource) (int64, error) {
	if err := t.closed(); err != nil {
		return 0, err
	}
	n, err := t.conn.CopyFrom(ctx, table, columns, source)
	return n, t.note(err)
}

func (t *tx) SendBatch(ctx context.Context, b *pgx.Batch) pgx.BatchResults {
	if err := t.closed(); err != nil {
		return errResults{err, t}
	}
	return txResults{t.conn.SendBatch(ctx, b), t}
}

func (t *tx) Prepare(ctx context.Context, name, sql string) (*pgconn.StatementDescription, error) {
	if err := t.closed(); err != nil {
		return nil, err
	}
	d, err := t.conn.Prepare(ctx, name, sql)
	return d, t.note(err)
}

func (t *tx) LargeObjects() pgx.LargeObjects { return t.inner.LargeObjects() }

// Conn returns the connection, past all that this type watches over.
func (t *tx) Conn() *pgx.Conn { return t.conn }
