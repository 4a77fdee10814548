package pgstore

import (
	"context"
	"errors"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
)

// A session is what is known of the settings of a connection, so that a transaction need not save and set all that it
// depends on.
type session struct {
	lockTimeout string
	isolation   pgx.TxIsoLevel // of a transaction that says none
}

// sessionKey is where a connection keeps its session.
const sessionKey = "github.com/semel-go/semel/testserver/pgstore session"

// know sets the idle timeout of a new connection. Where that fails, or somebody has chosen another one, each transaction
// sets it.
func (s *Store) know(ctx context.Context, conn *pgx.Conn) {
	known := &session{}
	var ours bool
	err := conn.QueryRow(ctx, sessionSQL, millis(orElse(s.IdleTimeout, time.Minute))).Scan(&known.lockTimeout, &known.isolation, &ours)
	if err == nil && ours {
		conn.PgConn().CustomData()[sessionKey] = known
	}
}

// knownOf returns nil if nothing is known.
func knownOf(conn *pgx.Conn) *session {
	known, _ := conn.PgConn().CustomData()[sessionKey].(*session)
	return known
}

// forget takes the session for unknown if the error says that its lock_timeout is no longer what it was, and reports it.
func forget(conn *pgx.Conn, err error) bool {
	var e *pgconn.PgError
	if knownOf(conn) == nil || !errors.As(err, &e) || e.Code != "23502" || e.ColumnName != "started" {
		return false
	}
	delete(conn.PgConn().CustomData(), sessionKey)
	return true
}
