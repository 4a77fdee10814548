package pgstore

import (
	"context"
	"sync"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/semel-go/semel/testserver"
)

var _ testserver.Transactor = (*Store)(nil)

// A Store keeps keys in one table of one database. Set the fields before the first call and leave them; a Store is safe
// for concurrent use and must not be copied after it. Processes share the table, not the Store.
type Store struct {
	DB *pgxpool.Pool // required; it stays the caller's to close, after the Store

	Table string // "schema.name" or "name"; "" is semel_keys

	// Pooler says that DB leads to PgBouncer, or the like, in transaction mode: no statement is prepared by name and
	// nothing listens. See Configure.
	Pooler bool

	// Notify wakes waiters in other processes by NOTIFY, sent in bundles and never inside a transaction that settles.
	// Listening takes one connection of its own, outside the pool. Polling goes on, as a net below.
	Notify bool

	Poll        time.Duration // between two looks at keys that are waited for; 0 is 50 ms
	Timeout     time.Duration // of one call, waiting for a connection included, but not Transact's work; its COMMIT at most the lease; 0 is 5 s
	IdleTimeout time.Duration // of a transaction whose work sends no statement, until the server ends it; 0 is 1 min

	Isolation pgx.TxIsoLevel // of Transact's transactions; "" is the server's default
	MaxAnswer int            // bytes of header and body that an answer may have; 0 is 8 MiB

	once sync.Once
	sql  statements

	life    life
	waiting waiting
	notices notices
	flights flights
	dropped dropped
}

// Close stops what runs in the background and waits until it has stopped. Waiters return an error; the pool stays open.
func (s *Store) Close() error {
	s.life.end()
	return nil
}

func (s *Store) statements() *statements {
	s.once.Do(func() { s.sql = newStatements(s.Table) })
	return &s.sql
}

func (s *Store) limit(ctx context.Context) (context.Context, context.CancelFunc) {
	return context.WithTimeout(ctx, orElse(s.Timeout, 5*time.Second))
}

// detached is for what must be told even when the caller is gone.
func (s *Store) detached(ctx context.Context) (context.Context, context.CancelFunc) {
	return s.limit(context.WithoutCancel(ctx))
}

// ending is for the end of a transaction. Nobody shall wait for a COMMIT much longer than for an owner that has died: what
// became of it is found out then.
func (s *Store) ending(ctx context.Context, c testserver.Claim) (context.Context, context.CancelFunc) {
	limit := orElse(s.Timeout, 5*time.Second)
	if c.Lease > 0 {
		limit = min(limit, max(c.Lease, time.Second))
	}
	return context.WithTimeout(context.WithoutCancel(ctx), limit)
}

func orElse[T comparable](v, other T) T {
	var zero T
	if v == zero {
		return other
	}
	return v
}

// A life ends goroutines that outlive a call.
type life struct {
	mu     sync.Mutex // guards all below
	ctx    context.Context
	cancel context.CancelFunc
	ended  bool
	group  sync.WaitGroup
}

// start runs f until it returns, at the latest soon after the life's end. It reports false if that has come already.
func (l *life) start(f func(context.Context)) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.ended {
		return false
	}
	ctx := l.begin()
	l.group.Add(1)
	go func() {
		defer l.group.Done()
		f(ctx)
	}()
	return true
}

func (l *life) begin() context.Context {
	if l.ctx == nil {
		l.ctx, l.cancel = context.WithCancel(context.Background())
	}
	return l.ctx
}

// done is closed at the end.
func (l *life) done() <-chan struct{} {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.begin().Done()
}

func (l *life) end() {
	l.mu.Lock()
	l.begin()
	l.ended = true
	l.cancel()
	l.mu.Unlock()
	l.group.Wait()
}
