package testserver

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"net/http"
	"slices"
	"strconv"
	"strings"
)

// A Bank is a handler with an effect that can be counted.
//
//	POST /transfers {"from":"alice","to":"bob","amount":100,"reference":"…"}   201, Location
//	GET  /transfers/{id}
//	GET  /accounts/{id}
//
// It refuses with 400 invalid_transfer, 402 insufficient_funds, 404 not_found and 409 reference_taken, as
// application/problem+json. The zero Bank has no accounts. Methods without a context are for judging by: they panic if
// the ledger cannot be read.
type Bank struct {
	Ledger Ledger // if nil, one in memory

	mem memLedger
}

func (b *Bank) ledger() Ledger {
	if b.Ledger == nil {
		return &b.mem
	}
	return b.Ledger
}

// Open sets the balance of an account.
func (b *Bank) Open(account string, balance int64) {
	must(0, b.ledger().Open(context.Background(), account, balance))
}

// Effects returns how often the operation with this key has moved money, in all scopes.
func (b *Bank) Effects(key string) (n int) {
	for _, t := range b.Transfers() {
		if t.Operation.Key == key {
			n++
		}
	}
	return n
}

// Transfers returns all transfers, in order.
func (b *Bank) Transfers() []Transfer { return must(b.ledger().Transfers(context.Background())) }

// Balance returns what is on the account; 0 if there is none.
func (b *Bank) Balance(account string) int64 {
	return must(b.ledger().Balances(context.Background()))[account]
}

// Total returns the sum of all balances, which no transfer changes.
func (b *Bank) Total() (sum int64) {
	for balance := range maps.Values(must(b.ledger().Balances(context.Background()))) {
		sum += balance
	}
	return sum
}

// Validate is middleware for in front of the guard: it refuses malformed transfers, so that they use up no keys.
func (b *Bank) Validate(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Method != http.MethodPost || r.URL.Path != "/transfers" {
			next.ServeHTTP(w, r)
			return
		}
		const limit = 64 << 10
		body, err := io.ReadAll(io.LimitReader(r.Body, limit+1))
		if err != nil {
			writeAnswer(w, bodyIncomplete.answer())
			return
		}
		if len(body) > limit {
			writeAnswer(w, bodyTooLarge.answer())
			return
		}
		if _, err := parseTransfer(bytes.NewReader(body)); err != nil {
			writeAnswer(w, invalidTransfer.because(err.Error()).answer())
			return
		}
		r2 := r.WithContext(r.Context())
		r2.Body = io.NopCloser(bytes.NewReader(body))
		next.ServeHTTP(w, r2)
	})
}

var (
	invalidTransfer   = problem{Code: "invalid_transfer", Status: http.StatusBadRequest, Title: "This is not a transfer"}
	insufficientFunds = problem{Code: "insufficient_funds", Status: http.StatusPaymentRequired, Title: "The account does not have the funds"}
	notFound          = problem{Code: "not_found", Status: http.StatusNotFound, Title: "There is no such account or transfer"}
	referenceTaken    = problem{Code: "reference_taken", Status: http.StatusConflict, Title: "The reference belongs to another transfer"}
)

func parseTransfer(r io.Reader) (t Transfer, err error) {
	d := json.NewDecoder(r)
	d.DisallowUnknownFields()
	if err = d.Decode(&t); err != nil {
		return t, errors.New("the body is not the JSON of a transfer")
	}
	switch _, end := d.Token(); {
	case end != io.EOF:
		return t, errors.New("something follows the transfer")
	case t.Amount <= 0:
		return t, errors.New("the amount must be positive")
	case t.From == "" || t.To == "" || t.From == t.To:
		return t, errors.New("two different accounts are needed")
	case t.ID != 0:
		return t, errors.New("the bank makes the id")
	}
	return t, nil
}

func (b *Bank) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	kind, id, _ := strings.Cut(strings.TrimPrefix(r.URL.Path, "/"), "/")
	switch {
	case r.Method == http.MethodPost && kind == "transfers" && id == "":
		b.transfer(w, r)
	case r.Method == http.MethodGet && kind == "transfers":
		all, err := b.ledger().Transfers(r.Context())
		i := slices.IndexFunc(all, func(t Transfer) bool { return strconv.FormatInt(t.ID, 10) == id })
		if err != nil || i < 0 {
			refuse(w, cmpErr(err, ErrAccount))
			return
		}
		writeJSON(w, http.StatusOK, all[i])
	case r.Method == http.MethodGet && kind == "accounts":
		all, err := b.ledger().Balances(r.Context())
		balance, ok := all[id]
		if err != nil || !ok {
			refuse(w, cmpErr(err, ErrAccount))
			return
		}
		writeJSON(w, http.StatusOK, map[string]any{"id": id, "balance": balance})
	default:
		refuse(w, ErrAccount)
	}
}

func (b *Bank) transfer(w http.ResponseWriter, r *http.Request) {
	t, err := parseTransfer(r.Body)
	if err != nil {
		writeAnswer(w, invalidTransfer.because(err.Error()).answer())
		return
	}
	if run := runFrom(r.Context()); run != nil {
		t.Operation = run.hold.ID
		if run.kind == Keyed {
			if t.Once, err = DownstreamKey(r.Context(), "ledger", "transfer"); err != nil {
				refuse(w, err)
				return
			}
		}
	}
	if err = EffectStarting(r.Context()); err == nil || errors.Is(err, errUnguarded) {
		t, err = b.ledger().Transfer(r.Context(), t)
	}
	if err != nil {
		refuse(w, err)
		return
	}
	w.Header().Set("Location", fmt.Sprintf("/transfers/%d", t.ID))
	writeJSON(w, http.StatusCreated, t)
}

// refuse answers an error of the ledger.
func refuse(w http.ResponseWriter, err error) {
	p := problem{Code: "failed", Status: http.StatusInternalServerError, Title: "The bank has failed"}
	for _, known := range []struct {
		err error
		p   problem
	}{{ErrFunds, insufficientFunds}, {ErrAccount, notFound}, {ErrReference, referenceTaken}} {
		if errors.Is(err, known.err) {
			p = known.p
		}
	}
	writeAnswer(w, p.answer())
}

func cmpErr(err, def error) error {
	if err == nil {
		return def
	}
	return err
}

func writeJSON(w http.ResponseWriter, status int, v any) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	_ = json.NewEncoder(w).Encode(v) // an error means that the client is gone
}
