package pgstore

import (
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
)

// txRows, txRow and txResults note the errors that show only while results are read.
type txRows struct {
	pgx.Rows
	tx *tx
}

func (r *txRows) Next() bool {
	more := r.Rows.Next()
	if !more {
		_ = r.tx.note(r.Rows.Err())
	}
	return more
}

func (r *txRows) Err() error { return r.tx.note(r.Rows.Err()) }

func (r *txRows) Close() {
	r.Rows.Close()
	_ = r.tx.note(r.Rows.Err())
}

type txRow struct {
	row pgx.Row
	tx  *tx
}

func (r txRow) Scan(to ...any) error { return r.tx.note(r.row.Scan(to...)) }

type txResults struct {
	results pgx.BatchResults
	tx      *tx
}

func (r txResults) Exec() (pgconn.CommandTag, error) {
	tag, err := r.results.Exec()
	return tag, r.tx.note(err)
}

func (r txResults) Query() (pgx.Rows, error) {
	rows, err := r.results.Query()
	return &txRows{rows, r.tx}, r.tx.note(err)
}

func (r txResults) QueryRow() pgx.Row { return txRow{r.results.QueryRow(), r.tx} }
func (r txResults) Close() error      { return r.tx.note(r.results.Close()) }
func (r txResults) Tx() pgx.Tx        { return r.tx }

// errRow and errResults are what a transaction gives that is over.
type errRow struct{ err error }

func (r errRow) Scan(...any) error { return r.err }

type errResults struct {
	err error
	tx  *tx
}

func (r errResults) Exec() (pgconn.CommandTag, error) { return pgconn.CommandTag{}, r.err }
func (r errResults) Query() (pgx.Rows, error)         { return nil, r.err }
func (r errResults) QueryRow() pgx.Row                { return errRow{r.err} }
func (r errResults) Close() error                     { return r.err }
func (r errResults) Tx() pgx.Tx                       { return r.tx }
