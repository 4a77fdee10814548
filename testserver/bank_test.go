package testserver_test

import (
	"context"
	"encoding/json"
	"errors"
	"net/http/httptest"
	"strings"
	"testing"
	"testing/iotest"

	"github.com/stretchr/testify/require"

	"github.com/semel-go/semel/testserver"
)

func TestWhatTheBankSays(t *testing.T) {
	s := testserver.New()
	for _, tt := range []struct {
		name, key, body string
		status          int
		code            string
		claims          bool
	}{
		{"a transfer", "ok", transfer, 201, "", true},
		{"with a reference", "ref", `{"from":"alice","to":"bob","amount":1,"reference":"r1"}`, 201, "", true},
		{"too much", "much", `{"from":"alice","to":"bob","amount":1000}`, 402, "insufficient_funds", true},
		{"from nobody", "from", `{"from":"nobody","to":"bob","amount":1}`, 404, "not_found", true},
		{"to nobody", "to", `{"from":"alice","to":"nobody","amount":1}`, 404, "not_found", true},
		{"a reference twice, faults.md 47", "ref2", `{"from":"bob","to":"alice","amount":1,"reference":"r1"}`, 409, "reference_taken", true},
		{"nothing", "e", ``, 400, "invalid_transfer", false},
		{"no JSON, B26", "e", `money`, 400, "invalid_transfer", false},
		{"two", "e", transfer + transfer, 400, "invalid_transfer", false},
		{"nothing to move", "e", `{"from":"alice","to":"bob","amount":0}`, 400, "invalid_transfer", false},
		{"backwards", "e", `{"from":"alice","to":"bob","amount":-5}`, 400, "invalid_transfer", false},
		{"to oneself", "e", `{"from":"alice","to":"alice","amount":5}`, 400, "invalid_transfer", false},
		{"to no account", "e", `{"from":"alice","amount":5}`, 400, "invalid_transfer", false},
		{"half a unit", "e", `{"from":"alice","to":"bob","amount":0.5}`, 400, "invalid_transfer", false},
		{"more than there is in the world", "e", `{"from":"alice","to":"bob","amount":9223372036854775808}`, 400, "invalid_transfer", false},
		{"an id of one's own", "e", `{"id":7,"from":"alice","to":"bob","amount":5}`, 400, "invalid_transfer", false},
		{"an unknown member", "e", `{"from":"alice","to":"bob","amount":5,"fee":1}`, 400, "invalid_transfer", false},
		{"far too long", "e", `{"from":"` + strings.Repeat("x", 1<<16) + `"}`, 413, "body_too_large", false},
	} {
		t.Run(tt.name, func(t *testing.T) {
			got := do(s.Handler(), request(tt.key, tt.body))
			got.is(t, tt.status, tt.code)
			again := do(s.Handler(), request(tt.key, tt.body))
			require.Equal(t, tt.claims, again.replayed())
			require.Equal(t, got.body, again.body)
			require.Equal(t, tt.claims, state(t, s.Guard, tt.key) == testserver.Completed)
			moved := 0
			if tt.status == 201 {
				moved = 1
			}
			require.Equal(t, moved, s.Bank.Effects(tt.key))
			require.EqualValues(t, 2000, s.Bank.Total())
		})
	}
	broken := request("e", "")
	broken.Body = readCloser{iotest.ErrReader(errors.New("x"))}
	do(s.Handler(), broken).is(t, 400, "body_incomplete")
}

type readCloser struct {
	r interface{ Read([]byte) (int, error) }
}

func (r readCloser) Read(p []byte) (int, error) { return r.r.Read(p) }
func (readCloser) Close() error                 { return nil }

func TestReadingTheBank(t *testing.T) {
	s := testserver.New()
	done := do(s.Handler(), request("k", transfer))
	require.Equal(t, "/transfers/1", done.header.Get("Location"))
	get := func(method, path string) reply { return do(s.Handler(), httptest.NewRequest(method, path, nil)) }
	require.JSONEq(t, done.body, get("GET", "/transfers/1").body)
	require.JSONEq(t, `{"id":1,"from":"alice","to":"bob","amount":100}`, done.body)
	require.JSONEq(t, `{"id":"bob","balance":1100}`, get("GET", "/accounts/bob").body)
	for _, path := range []string{"/", "/accounts/eve", "/accounts/", "/transfers/2", "/transfers", "/elsewhere"} {
		require.Equal(t, 404, get("GET", path).status, path)
	}
	require.Equal(t, 404, get("DELETE", "/transfers/1").status)

	all := s.Bank.Transfers()
	require.Len(t, all, 1)
	require.Equal(t, id("k"), all[0].Operation)
	require.False(t, all[0].At.IsZero())
	require.EqualValues(t, 0, s.Bank.Balance("eve"))

	bare := new(testserver.Bank)
	bare.Open("alice", 5)
	bare.Open("bob", 0)
	unguarded := do(bare, request("k", `{"from":"alice","to":"bob","amount":5}`))
	require.Equal(t, 201, unguarded.status)
	require.Zero(t, bare.Effects("k"), "without a guard it runs under no key")
	do(bare, request("k", "{}")).is(t, 400, "invalid_transfer")
}

// A keyed bank recognizes a repeat by its downstream key: that is what makes the re-run safe.
func TestTheBankAsAKeyedEffect(t *testing.T) {
	s := testserver.New(testserver.At(testserver.AfterEffect, 1, testserver.Abort))
	s.Guard.Effect = testserver.Keyed
	require.Error(t, do(s.Handler(), request("k", transfer)).err)
	require.Eventually(t, func() bool { return do(s.Handler(), request("k", transfer)).status == 201 }, 1e10, 1e6)
	require.Equal(t, 1, s.Bank.Effects("k"))
	require.EqualValues(t, 900, s.Bank.Balance("alice"))
	require.Error(t, do(s.Handler(), request("other", transfer)).err)
	require.EqualValues(t, 800, s.Bank.Balance("alice"))
}

type brokenLedger struct{ testserver.Ledger }

func (brokenLedger) Transfer(_ context.Context, t testserver.Transfer) (testserver.Transfer, error) {
	return t, errDown
}

func (brokenLedger) Transfers(context.Context) ([]testserver.Transfer, error) { return nil, errDown }

func (brokenLedger) Balances(context.Context) (map[string]int64, error) { return nil, errDown }

func TestALedgerThatIsDown(t *testing.T) {
	b := &testserver.Bank{Ledger: brokenLedger{}}
	do(b, request("k", transfer)).is(t, 500, "failed")
	for _, path := range []string{"/transfers/1", "/accounts/alice"} {
		do(b, httptest.NewRequest("GET", path, nil)).is(t, 500, "failed")
	}
	require.Panics(t, func() { b.Total() }, "a judge cannot go on without the ledger")
}

func TestTheKeyAndTheScopeAreNotShownToClients(t *testing.T) {
	b, err := json.Marshal(testserver.Transfer{Operation: id("secret"), Once: "secret"})
	require.NoError(t, err)
	require.NotContains(t, string(b), "secret")
}
