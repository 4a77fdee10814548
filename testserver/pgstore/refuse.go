package pgstore

import (
	"context"
	"fmt"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/semel-go/semel/testserver"
)

// refuse rolls back all that the work has done, the claim too, and stores the refusal in a transaction of its own, in the
// same round trip. That spares every transaction that succeeds a savepoint. Should another have claimed the key in between,
// its record is the answer, since of this work nothing is left.
//
// Where the isolation level lets a COMMIT refuse what was read there is a savepoint, so that this happens to refusals too.
func (s *Store) refuse(ctx context.Context, conn *pgxpool.Conn, c testserver.Claim, r row, aborted bool, columns []any) (testserver.Record, error) {
	limited, cancel := s.ending(ctx, c)
	defer cancel()
	other, stored, err := s.refuseOn(limited, conn, c, aborted, columns)
	switch {
	case err == nil && stored:
		conn.Release()
		s.wake(c.ID)
		return r.Record, nil
	case err == nil && other.Owner == c.Owner:
		err = fmt.Errorf("%w: %w", testserver.ErrInDoubt, errEnded)
	case err == nil && (other.State == testserver.Free || other.expired):
		err = errAgain{errContended}
	case err == nil: // the other's
	case maybeDone(err):
		s.giveBack(conn)
		return s.resolve(ctx, c, err)
	default:
		err = refused(err)
	}
	s.giveBack(conn)
	return other.Record, err
}

func (s *Store) refuseOn(ctx context.Context, conn *pgxpool.Conn, c testserver.Claim, aborted bool, columns []any) (other row, stored bool, err error) {
	b := &pgx.Batch{}
	if !aborted {
		b.Queue(rollbackSQL)
	} else if _, err := conn.Exec(ctx, rollbackSQL); err != nil { // what is not prepared yet cannot be, in an aborted transaction
		return row{}, false, err
	}
	b.Queue(beginCommittedSQL)
	before := b.Len()
	b.Queue(s.statements().keep, append(append(claimArgs(c), millis(leastWait)), columns...)...)
	b.Queue(s.statements().read, at(c.ID))
	b.Queue(commitSQL)
	results := conn.SendBatch(ctx, b)
	defer results.Close()
	for range before {
		if _, err := results.Exec(); err != nil {
			return row{}, false, err
		}
	}
	tag, err := results.Exec()
	if err != nil {
		return row{}, false, err
	}
	if other, err = scan(results.QueryRow(), c.ID); err != nil {
		return row{}, false, err
	}
	stored = tag.RowsAffected() == 1
	if tag, err = results.Exec(); err == nil && tag.String() != commitSQL {
		err = errDefinite{fmt.Errorf("COMMIT was answered by %s", tag)}
	}
	return other, stored, err
}

// refused says what an error of a transaction means that changed nothing.
func refused(err error) error {
	switch {
	case again(err), otherLock(err):
		return errAgain{err}
	case code(err) == lockNotAvailable:
		return fmt.Errorf("%w: another transaction holds it", testserver.ErrBusy)
	}
	return fmt.Errorf("nothing was committed: %w", err)
}
