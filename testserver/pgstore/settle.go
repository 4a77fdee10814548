package pgstore

import (
	"bytes"
	"context"
	"slices"

	"github.com/semel-go/semel/testserver"
)

// Settle is one round trip; a second one tells why the first changed nothing. An answer that is larger than MaxAnswer
// is refused with ErrTooLarge, and the hold stays.
func (s *Store) Settle(ctx context.Context, h testserver.Hold, end testserver.Settlement) error {
	ctx, cancel := s.limit(ctx)
	defer cancel()
	if err := retry(ctx, repeatable, func() error { return s.settle(ctx, h, end) }); err != nil {
		return s.fail("settle", h.ID, err)
	}
	s.wake(h.ID)
	return nil
}

func (s *Store) settle(ctx context.Context, h testserver.Hold, end testserver.Settlement) error {
	q := s.statements()
	sql, args := q.free, []any{at(h.ID), h.Owner[:], h.Fence}
	var columns []any
	if end.State != testserver.Free {
		var err error
		if columns, err = s.columnsOf(end); err != nil {
			return errDefinite{err}
		}
		sql, args = q.settle, append(args, columns...)
	}
	conn, err := s.acquire(ctx)
	if err != nil {
		return err
	}
	defer conn.Release()
	tag, err := conn.Exec(ctx, sql, args...)
	if err != nil || tag.RowsAffected() == 1 {
		return err
	}
	r, err := scan(conn.QueryRow(ctx, q.read, at(h.ID)), h.ID)
	if err != nil {
		return err
	}
	return why(r, h, end)
}

// why says what a settlement means that changed nothing.
func why(r row, h testserver.Hold, end testserver.Settlement) error {
	mine := r.Owner == h.Owner && r.Fence == h.Fence
	switch {
	case end.State == testserver.Free && r.State == testserver.Free:
		return nil
	case end.State == testserver.Free && mine && r.Started && !r.terminal():
		return errDefinite{testserver.ErrStarted}
	case end.State != testserver.Free && mine && r.State == end.State && same(r.Answer, end):
		return nil
	}
	return errDefinite{testserver.ErrLost}
}

func same(stored *testserver.Answer, end testserver.Settlement) bool {
	if stored == nil {
		return end.State == testserver.Unknown
	}
	return stored.Status == end.Answer.Status && slices.Equal(stored.Header, end.Answer.Header) &&
		(end.State == testserver.Tombstone || bytes.Equal(stored.Body, end.Answer.Body))
}

// Look is one round trip. A record that has expired is no longer there, purged or not.
func (s *Store) Look(ctx context.Context, id testserver.ID) (testserver.Record, error) {
	ctx, cancel := s.limit(ctx)
	defer cancel()
	var r row
	err := retry(ctx, repeatable, func() (err error) {
		r, err = s.look(ctx, id)
		return err
	})
	if err != nil {
		return testserver.Record{}, s.fail("look at", id, err)
	}
	if r.expired {
		return testserver.Record{ID: id}, nil
	}
	return r.Record, nil
}

func (s *Store) look(ctx context.Context, id testserver.ID) (row, error) {
	conn, err := s.acquire(ctx)
	if err != nil {
		return row{}, err
	}
	defer conn.Release()
	return scan(conn.QueryRow(ctx, s.statements().read, at(id)), id)
}
