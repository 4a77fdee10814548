package pgstore

import (
	"context"
	"errors"
	"fmt"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
)

// Configure prepares a pool's configuration for this store: each new connection has the store's statements prepared,
// so that their first use costs no further round trip, and IdleTimeout set for the session, unless it has one of its own:
// then, and without Configure, each transaction sets it. With Pooler it sets a mode that names no statement instead,
// unless one is set already. It keeps an AfterConnect that is there.
func (s *Store) Configure(c *pgxpool.Config) {
	if s.Pooler {
		if named(c.ConnConfig.DefaultQueryExecMode) {
			c.ConnConfig.DefaultQueryExecMode = pgx.QueryExecModeCacheDescribe
		}
		return
	}
	before := c.AfterConnect
	c.AfterConnect = func(ctx context.Context, conn *pgx.Conn) error {
		if before != nil {
			if err := before(ctx, conn); err != nil {
				return err
			}
		}
		s.know(ctx, conn)
		s.prepare(ctx, conn)
		return nil
	}
}

// prepare is a matter of speed alone: what is wrong with the table is told by the call that meets it.
func (s *Store) prepare(ctx context.Context, conn *pgx.Conn) {
	q := s.statements()
	for _, sql := range []string{q.insert, q.unlessInserted, q.read, q.settle, q.enterKnown, q.finish, q.keep, s.beginSQL(), beginCommittedSQL, savepointSQL, undoSQL, commitSQL, rollbackSQL} {
		if _, err := conn.Prepare(ctx, sql, sql); err != nil {
			return
		}
	}
}

// named reports whether a mode leaves prepared statements behind on the connection.
func named(m pgx.QueryExecMode) bool {
	return m == pgx.QueryExecModeCacheStatement || m == pgx.QueryExecModeDescribeExec
}

// acquire takes a connection for a call. Its error is from before anything was sent.
func (s *Store) acquire(ctx context.Context) (*pgxpool.Conn, error) {
	if s.DB == nil {
		return nil, errDefinite{errors.New("Store.DB is nil")}
	}
	conn, err := s.DB.Acquire(ctx)
	if err != nil {
		stat := s.DB.Stat()
		return nil, errDefinite{fmt.Errorf("no connection to be had, %d of %d in use, so nothing was sent: %w", stat.AcquiredConns(), stat.MaxConns(), err)}
	}
	if s.Pooler {
		if mode := conn.Conn().Config().DefaultQueryExecMode; named(mode) { // a copy of all there is: not on the way of others
			conn.Release()
			return nil, errDefinite{fmt.Errorf("Store.Pooler is set, but the pool uses %v, which needs named statements: use Configure", mode)}
		}
	}
	return conn, nil
}
