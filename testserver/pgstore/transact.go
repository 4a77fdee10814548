package pgstore

import (
	"context"
	"errors"
	"fmt"
	"math"
	"strconv"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/semel-go/semel/testserver"
)

// errAgain asks for a new run of a transaction that was rolled back.
type errAgain struct{ error }

func (e errAgain) Unwrap() error { return e.error }

// Transact opens the transaction with the claim and closes it with the answer, in one round trip each, so that the two
// take the places of BEGIN and COMMIT. Work finds the transaction by [Tx]. The row that is not yet committed is the hold:
// it needs no lease and ends with the connection.
//
// Claims of one key in this process wait for each other without a connection, so that one key cannot use up the pool;
// in other processes they wait for the row, one connection each. Work is run again after a serialization failure or a
// deadlock, never after a broken connection.
//
// An answer with a status below 400 from a transaction that a statement's error has aborted is an error, and nothing is
// committed. So is an answer larger than MaxAnswer.
func (s *Store) Transact(ctx context.Context, c testserver.Claim, wait time.Duration, work func(context.Context) (*testserver.Answer, error)) (testserver.Record, error) {
	began, wait := time.Now(), min(wait, longestWait)
	f, r, err := s.flights.board(ctx, at(c.ID), wait)
	if err != nil {
		return testserver.Record{}, s.fail("transact", c.ID, err)
	}
	if f == nil {
		r.ID = c.ID
		return r, nil
	}
	var known bool
	defer func() { s.flights.land(at(c.ID), f, r, known) }()
	err = retry(ctx, func(err error) bool { return errors.As(err, new(errAgain)) }, func() (err error) {
		r, err = s.transact(ctx, c, wait-time.Since(began), func(ctx context.Context) (*testserver.Answer, error) {
			f.begin()
			return work(ctx)
		})
		return err
	})
	if err != nil {
		return testserver.Record{}, s.fail("transact", c.ID, err)
	}
	known = r.State == testserver.Completed
	return r, nil
}

// transact is one transaction.
func (s *Store) transact(ctx context.Context, c testserver.Claim, wait time.Duration, work func(context.Context) (*testserver.Answer, error)) (testserver.Record, error) {
	c.Started = true // should work commit by itself, the row must never be taken over
	conn, r, tx, err := s.open(ctx, c, wait)
	if err != nil || tx == nil {
		return r.Record, err
	}
	answer, err := s.work(ctx, conn, tx, work)
	if err != nil {
		return testserver.Record{}, err
	}
	tx.aborted = conn.Conn().PgConn().TxStatus() == 'E'
	columns, err := s.judge(tx, answer)
	if err != nil {
		s.giveBack(conn)
		return testserver.Record{}, err
	}
	r.State, r.Answer, r.Left = testserver.Completed, answer, 0
	if answer.Status >= 400 && !tx.saved {
		return s.refuse(ctx, conn, c, r, tx.aborted, columns)
	}
	return s.conclude(ctx, conn, c, r, tx.aborted, columns)
}

// open begins the transaction and claims the key in it. Without a transaction the record decides, or the error.
func (s *Store) open(ctx context.Context, c testserver.Claim, wait time.Duration) (*pgxpool.Conn, row, *tx, error) {
	ctx, cancel := context.WithTimeout(ctx, orElse(s.Timeout, 5*time.Second)+wait)
	defer cancel()
	conn, err := s.acquire(ctx)
	if err != nil {
		return nil, row{}, nil, err
	}
	r, t, err := s.openOn(ctx, conn, c, wait)
	if err == nil && t != nil {
		return conn, r, t, nil
	}
	s.giveBack(conn)
	switch {
	case otherLock(err):
		err = errAgain{err}
	case code(err) == lockNotAvailable:
		err = fmt.Errorf("%w: another transaction holds it", testserver.ErrBusy)
	case again(err), maybeDone(err): // the work has not begun
		err = errAgain{err}
	}
	return nil, r, nil, err
}

func (s *Store) openOn(ctx context.Context, conn *pgxpool.Conn, c testserver.Claim, wait time.Duration) (row, *tx, error) {
	r, inserted, t, err := s.enter(ctx, conn, s.beginSQL(), c, wait)
	if err != nil {
		return row{}, nil, err
	}
	if inserted {
		return fresh(c), t, nil
	}
	step := s.next(r, c)
	if step.sql == "" {
		if r.State == testserver.Free {
			return row{}, nil, errAgain{errContended}
		}
		return r, nil, nil
	}
	b := &pgx.Batch{}
	b.Queue(step.sql, step.args...)
	b.Queue(s.statements().read, at(c.ID))
	if known := knownOf(conn.Conn()); known != nil {
		b.Queue(insteadKnownSQL, known.lockTimeout)
	} else {
		b.Queue(insteadSQL)
	}
	if !t.saved {
		t.saved = true
		b.Queue(savepointSQL)
	}
	after, stepped, err := changed(conn.SendBatch(ctx, b), c.ID)
	switch {
	case err != nil:
		return row{}, nil, err
	case !stepped && !step.skips:
		return row{}, nil, errAgain{errContended}
	case !stepped:
		return after, nil, nil
	case !step.holds: // it turned unknown, and shall stay so
		_, err = conn.Exec(ctx, commitSQL)
		return after, nil, err
	}
	return after, t, nil
}

// leastWait is what a lock_timeout must be at least, since it counts for locks that are held for a moment only, too.
const leastWait = 20 * time.Millisecond

// longestWait is what the server takes at most.
const longestWait = math.MaxInt32 * time.Millisecond

// enter begins a transaction and claims the key in it.
func (s *Store) enter(ctx context.Context, conn *pgxpool.Conn, begin string, c testserver.Claim, wait time.Duration) (row, bool, *tx, error) {
	b := &pgx.Batch{}
	b.BeginTx(pgx.TxOptions{BeginQuery: begin})
	args := append(claimArgs(c), millis(max(wait, leastWait)))
	known := knownOf(conn.Conn())
	if known != nil {
		b.Queue(s.statements().enterKnown, append(args, known.lockTimeout)...)
	} else {
		b.Queue(s.statements().enter, append(args, millis(orElse(s.IdleTimeout, time.Minute)))...)
	}
	b.Queue(s.statements().unlessInserted, at(c.ID))
	saved := known == nil || orElse(s.Isolation, known.isolation) != pgx.ReadCommitted
	if saved {
		b.Queue(savepointSQL)
	}
	results := conn.SendBatch(ctx, b)
	t := &tx{conn: conn.Conn(), inner: results.Tx(), saved: saved}
	defer results.Close()
	if _, err := results.Exec(); err != nil {
		return row{}, false, nil, err
	}
	r, inserted, err := changed(results, c.ID)
	if forget(conn.Conn(), err) {
		err = errAgain{err}
	}
	return r, inserted, t, err
}

func (s *Store) beginSQL() string {
	if s.Isolation == "" {
		return "BEGIN"
	}
	return "BEGIN ISOLATION LEVEL " + string(s.Isolation)
}

// millis is a timeout as the server takes it, where 0 would mean none. It is not shorter than d.
func millis(d time.Duration) string {
	return strconv.FormatInt(max(1, (min(d, longestWait)+time.Millisecond-1).Milliseconds()), 10)
}

// work runs the work. After an error or a panic everything is rolled back before anybody hears of it.
func (s *Store) work(ctx context.Context, conn *pgxpool.Conn, tx *tx, work func(context.Context) (*testserver.Answer, error)) (answer *testserver.Answer, err error) {
	ended := false
	defer func() {
		tx.end()
		if !ended || err != nil {
			s.rollBack(conn)
		}
	}()
	answer, err = work(context.WithValue(ctx, txKey{}, tx))
	ended = true
	if err != nil && (again(err) || conn.Conn().PgConn().TxStatus() == 'E' && tx.askedAgain()) {
		err = errAgain{err}
	}
	return answer, err
}

// judge returns the columns to commit, or why nothing may be.
func (s *Store) judge(tx *tx, answer *testserver.Answer) ([]any, error) {
	switch status := tx.conn.PgConn().TxStatus(); {
	case tx.conn.IsClosed():
		return nil, errors.New("the connection broke during the work, so nothing was committed")
	case tx.conn.PgConn().IsBusy():
		return nil, errors.New("the work left a query open, so nothing was committed: close its rows")
	case status == 'I':
		return nil, fmt.Errorf("%w: %w", testserver.ErrInDoubt, errEnded)
	case tx.aborted && tx.askedAgain():
		return nil, errAgain{tx.first()}
	case answer == nil:
		return nil, errors.New("the work returned no answer, so nothing was committed")
	case tx.aborted && answer.Status < 400:
		return nil, fmt.Errorf("the work answered %d, but one of its statements had failed, so nothing was committed: %w", answer.Status, tx.first())
	}
	return s.columnsOf(testserver.Settlement{State: testserver.Completed, Answer: answer})
}

// giveBack rolls back what is open and returns the connection to the pool, without the caller waiting for it.
func (s *Store) giveBack(conn *pgxpool.Conn) {
	hangUp(conn)
	if conn.Conn().IsClosed() || conn.Conn().PgConn().IsBusy() || conn.Conn().PgConn().TxStatus() == 'I' {
		conn.Release()
		return
	}
	if !s.life.start(func(context.Context) { s.rollBack(conn) }) {
		s.rollBack(conn)
	}
}

// rollBack returns the connection to the pool too; one that does not roll back is closed, which does it as well.
func (s *Store) rollBack(conn *pgxpool.Conn) {
	ctx, cancel := s.detached(context.Background())
	defer cancel()
	if !conn.Conn().IsClosed() && !conn.Conn().PgConn().IsBusy() && conn.Conn().PgConn().TxStatus() != 'I' {
		_, _ = conn.Exec(ctx, rollbackSQL)
	}
	hangUp(conn)
	conn.Release()
}

// hangUp closes the socket of a connection that pgx has given up, and no other. Pgx itself reads from it for another 15 s, and as long
// as the server does not learn of the end it keeps the transaction and its locks.
func hangUp(conn *pgxpool.Conn) {
	if conn.Conn().IsClosed() {
		_ = conn.Conn().PgConn().Conn().Close()
	}
}
