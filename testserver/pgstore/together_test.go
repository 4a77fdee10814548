package pgstore_test

import (
	"testing"

	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/stretchr/testify/require"

	"github.com/semel-go/semel/semeltest"
	"github.com/semel-go/semel/testserver"
	"github.com/semel-go/semel/testserver/pgstore"
	"github.com/semel-go/semel/testserver/pgstore/pgtest"
)

// The scenarios that client and memory store go through together, with keys and money in Postgres.
func TestClientAndServerTogether(t *testing.T) {
	for name, effect := range map[string]testserver.Effect{
		"once":          testserver.Once,
		"marked":        testserver.Marked,
		"transactional": testserver.Transactional,
	} {
		t.Run(name, func(t *testing.T) {
			semeltest.TestTogether(t, func(t *testing.T, faults ...testserver.Fault) *testserver.Server {
				t.Helper()
				config, err := pgxpool.ParseConfig(pgtest.DSN(t))
				require.NoError(t, err)
				store := new(pgstore.Store)
				store.Configure(config)
				store.DB = pgtest.Pool(t, config)
				t.Cleanup(func() { require.NoError(t, store.Close()) })
				ledger := &pgstore.Ledger{DB: store.DB}
				require.NoError(t, store.CreateSchema(t.Context()))
				require.NoError(t, ledger.CreateSchema(t.Context()))
				s := testserver.New(faults...)
				s.Guard.Store, s.Guard.Effect = store, effect
				s.Bank.Ledger = ledger
				s.Bank.Open("alice", 1000)
				s.Bank.Open("bob", 1000)
				return s
			})
		})
	}
}
