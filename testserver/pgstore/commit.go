package pgstore

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/semel-go/semel/testserver"
)

// conclude stores the answer and commits, whether or not the caller is still there. It ends with the connection given
// back and one of four: committed, rolled back, to be run again, or in doubt.
func (s *Store) conclude(ctx context.Context, conn *pgxpool.Conn, c testserver.Claim, r row, aborted bool, columns []any) (testserver.Record, error) {
	limited, cancel := s.ending(ctx, c)
	defer cancel()
	undo := r.Answer.Status >= 400
	if undo && aborted { // what is not prepared yet cannot be, in an aborted transaction
		if _, err := conn.Exec(limited, undoSQL); err != nil {
			s.giveBack(conn)
			return testserver.Record{}, err
		}
		undo = false
	}
	b := &pgx.Batch{}
	if undo {
		b.Queue(undoSQL)
	}
	b.Queue(s.statements().finish, append([]any{at(c.ID), r.Owner[:], r.Fence}, columns...)...)
	b.Queue(commitSQL)
	stored, err := committed(conn.SendBatch(limited, b), b.Len())
	if err == nil {
		conn.Release()
		if !stored {
			return testserver.Record{}, fmt.Errorf("%w: the work removed the key's row", testserver.ErrInDoubt)
		}
		s.wake(c.ID)
		return r.Record, nil
	}
	doubt := maybeDone(err)
	s.giveBack(conn)
	switch {
	case doubt:
		return s.resolve(ctx, c, err)
	case again(err):
		return testserver.Record{}, errAgain{err}
	case code(err) == "22P02":
		return testserver.Record{}, fmt.Errorf("%w: %w: %w", testserver.ErrInDoubt, errEnded, err)
	}
	return testserver.Record{}, fmt.Errorf("nothing was committed: %w", err)
}

// errEnded: what the work did in between nobody knows.
var errEnded = errors.New("the work ended the transaction by a statement of its own")

// committed reads the results of a batch that ends with the answer's update and COMMIT, and reports whether a row was
// updated. Only the tag tells that COMMIT did: of an aborted transaction it succeeds, with the tag ROLLBACK.
func committed(results pgx.BatchResults, n int) (stored bool, err error) {
	defer results.Close()
	var tag pgconn.CommandTag
	for range n {
		stored = tag.RowsAffected() == 1
		if tag, err = results.Exec(); err != nil {
			return false, err
		}
	}
	if tag.String() != commitSQL {
		return false, errDefinite{fmt.Errorf("COMMIT was answered by %s", tag)}
	}
	return stored, nil // what comes after that tag cannot undo it
}

// resolve finds out what became of a COMMIT without an answer. It claims again, since an insert waits for the end of a
// transaction in doubt; that a row cannot be seen proves nothing.
func (s *Store) resolve(ctx context.Context, c testserver.Claim, cause error) (testserver.Record, error) {
	ctx, cancel := s.detached(ctx)
	defer cancel()
	for try := 1; ; try++ {
		r, free, err := s.probe(ctx, c)
		switch {
		case err == nil && free:
			return testserver.Record{}, fmt.Errorf("the connection broke and nothing was committed: %w", cause)
		case err == nil && r.State == testserver.Free: // gone in between
		case err == nil && r.Owner == c.Owner && r.State != testserver.Completed:
			return testserver.Record{}, fmt.Errorf("%w: %w", testserver.ErrInDoubt, cause)
		case err == nil:
			return r.Record, nil // ours, or another's who could only begin because ours was rolled back
		}
		if pause(ctx, try, 20*time.Millisecond) != nil {
			return testserver.Record{}, fmt.Errorf("%w: %w", testserver.ErrInDoubt, errors.Join(cause, err))
		}
	}
}

// probe claims the key and lets it go. It reports free if the claim took it.
func (s *Store) probe(ctx context.Context, c testserver.Claim) (r row, free bool, err error) {
	conn, err := s.acquire(ctx)
	if err != nil {
		return row{}, false, err
	}
	defer s.rollBack(conn)
	r, free, _, err = s.enter(ctx, conn, beginCommittedSQL, c, time.Second)
	return r, free, err
}
