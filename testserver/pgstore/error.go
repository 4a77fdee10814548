package pgstore

import (
	"errors"
	"fmt"

	"github.com/jackc/pgx/v5/pgconn"

	"github.com/semel-go/semel/testserver"
)

var errClosed = errors.New("pgstore: the store is closed")

// errDefinite wraps an error after which it is certain that nothing has changed.
type errDefinite struct{ error }

func (e errDefinite) Unwrap() error { return e.error }

// maybeDone reports whether the statement may have taken effect although it failed.
func maybeDone(err error) bool {
	if err == nil || errors.As(err, new(errDefinite)) || pgconn.SafeToRetry(err) {
		return false
	}
	switch c := code(err); {
	case c == "":
		return true
	case c == "40003", c[:2] == "08", c[:2] == "57" && c != "57014", c[:2] == "58": // told to go while it was committing
		return true
	}
	return false
}

// code is the SQLSTATE in err, or "".
func code(err error) string {
	var e *pgconn.PgError
	if errors.As(err, &e) && len(e.Code) == 5 {
		return e.Code
	}
	return ""
}

// again reports whether the database asks for the transaction to be run again.
func again(err error) bool { c := code(err); return c == "40001" || c == "40P01" }

const lockNotAvailable = "55P03"

// otherLock reports whether lock_timeout ended the wait for another lock than that of the key's row, such as the one for
// a new page of the table. Only where a tuple was waited for the server says where.
func otherLock(err error) bool {
	var e *pgconn.PgError
	return errors.As(err, &e) && e.Code == lockNotAvailable && e.Where == ""
}

// fail says what failed, for which key, and what to do.
func (s *Store) fail(what string, id testserver.ID, err error) error {
	if advice := s.advice(err); advice != "" {
		return fmt.Errorf("pgstore: %s key %q: %s: %w", what, short(id.Key), advice, err)
	}
	return fmt.Errorf("pgstore: %s key %q: %w", what, short(id.Key), err)
}

func short(key string) string {
	if len(key) > 64 {
		return key[:64] + "…"
	}
	return key
}

func (s *Store) advice(err error) string {
	table := s.statements().table
	switch c := code(err); {
	case c == "42P01", c == "3F000":
		return "there is no table " + table + ", run CreateSchema or schema.sql"
	case c == "42703", c == "42P10", c == "42804", c == "42883", c == "23502", c == "42846", c == "22003", c == "22021":
		return "the table " + table + " has another shape than schema.sql gives it"
	case c == "25006":
		return "the database is read-only, so connect to the primary (target_session_attrs=read-write)"
	case c == "42501":
		return "the role may not select, insert, update and delete in " + table
	case c == "53100":
		return "the database has no room left"
	case c == "53300":
		return "the database takes no more connections"
	case c == "28P01", c == "28000", c == "3D000":
		return "the database refuses this role, password or database name"
	case c == "42P05", c == "26000", c == "08P01" && !s.Pooler:
		return "a pooler in transaction mode seems to be in between, so set Store.Pooler"
	}
	return ""
}
