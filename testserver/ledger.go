package testserver

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync"
	"time"
)

// A Ledger keeps the accounts of a [Bank]. Its methods are safe for concurrent use.
type Ledger interface {
	// Open sets the balance of an account.
	Open(ctx context.Context, account string, balance int64) error

	// Transfer moves the money and records that it did, with a fresh ID, all or nothing. It is the effect: it joins the
	// transaction of the context, if there is one. ErrAccount, ErrFunds and ErrReference mean that nothing happened.
	Transfer(ctx context.Context, t Transfer) (Transfer, error)

	// Transfers returns all transfers, in order.
	Transfers(ctx context.Context) ([]Transfer, error)

	// Balances returns the balances of all accounts.
	Balances(ctx context.Context) (map[string]int64, error)
}

// A Transfer moves an amount from one account to another.
type Transfer struct {
	ID        int64  `json:"id"`
	From      string `json:"from"`
	To        string `json:"to"`
	Amount    int64  `json:"amount"`              // in the smallest unit of the currency
	Reference string `json:"reference,omitempty"` // unique over all transfers, if not empty

	// What it was done under, which clients are not shown. Once, if not empty, is the key under which the ledger itself
	// recognizes a repeat, and returns what the first one did.
	Operation ID        `json:"-"`
	Once      string    `json:"-"`
	At        time.Time `json:"-"`
}

// Why a Ledger refuses a transfer.
var (
	ErrAccount   = errors.New("testserver: there is no such account")
	ErrFunds     = errors.New("testserver: the account does not have the funds")
	ErrReference = errors.New("testserver: the reference is taken by another transfer")
)

// memLedger is a Ledger in memory. The zero value is empty.
type memLedger struct {
	mu        sync.Mutex
	balances  map[string]int64
	transfers []Transfer
	next      int64
}

func (l *memLedger) Open(_ context.Context, account string, balance int64) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.balances == nil {
		l.balances = make(map[string]int64)
	}
	l.balances[account] = balance
	return nil
}

func (l *memLedger) Transfer(ctx context.Context, t Transfer) (Transfer, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if i := slices.IndexFunc(l.transfers, func(o Transfer) bool { return t.Once != "" && o.Once == t.Once }); i >= 0 {
		return l.transfers[i], nil
	}
	if err := l.check(t); err != nil {
		return t, err
	}
	l.next++ // as a sequence, it leaves gaps where a transaction rolls back
	t.ID, t.At = l.next, time.Now()
	if !atCommit(ctx, func() error { return l.commit(t) }) {
		l.apply(t)
	}
	return t, nil
}

func (l *memLedger) commit(t Transfer) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.check(t) != nil {
		return errConflict
	}
	l.apply(t)
	return nil
}

func (l *memLedger) check(t Transfer) error {
	_, to := l.balances[t.To]
	balance, from := l.balances[t.From]
	switch {
	case !from || !to:
		return ErrAccount
	case t.Reference != "" && slices.ContainsFunc(l.transfers, func(o Transfer) bool { return o.Reference == t.Reference }):
		return ErrReference
	case balance < t.Amount:
		return ErrFunds
	}
	return nil
}

func (l *memLedger) apply(t Transfer) {
	l.balances[t.From] -= t.Amount
	l.balances[t.To] += t.Amount
	l.transfers = append(l.transfers, t)
}

func (l *memLedger) Transfers(context.Context) ([]Transfer, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return slices.Clone(l.transfers), nil
}

func (l *memLedger) Balances(context.Context) (map[string]int64, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return maps.Clone(l.balances), nil
}

// must is for the judge, who cannot go on without the ledger.
func must[T any](v T, err error) T {
	if err != nil {
		panic(fmt.Errorf("testserver: the ledger cannot be read: %w", err))
	}
	return v
}
