package pgstore_test

import (
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/stretchr/testify/require"

	"github.com/semel-go/semel/semeltest"
	"github.com/semel-go/semel/testserver"
	"github.com/semel-go/semel/testserver/pgstore"
	"github.com/semel-go/semel/testserver/pgstore/pgtest"
)

// TestStore holds it to the contract that all stores have, over each way to reach the database.
func TestStore(t *testing.T) {
	for name, adjust := range map[string]func(*pgstore.Store, *pgxpool.Config){
		"prepared": func(*pgstore.Store, *pgxpool.Config) {},
		"notify":   func(s *pgstore.Store, _ *pgxpool.Config) { s.Notify = true },
		"pooler":   func(s *pgstore.Store, _ *pgxpool.Config) { s.Pooler = true },
		"simple protocol": func(s *pgstore.Store, c *pgxpool.Config) {
			s.Pooler = true
			c.ConnConfig.DefaultQueryExecMode = pgx.QueryExecModeSimpleProtocol
		},
		"serializable": func(_ *pgstore.Store, c *pgxpool.Config) {
			c.ConnConfig.RuntimeParams["default_transaction_isolation"] = "serializable"
		},
	} {
		t.Run(name, func(t *testing.T) {
			dsn := pgtest.DSN(t)
			semeltest.TestStore(t, func(t *testing.T) testserver.Store {
				t.Helper()
				config, err := pgxpool.ParseConfig(dsn)
				require.NoError(t, err)
				s := &pgstore.Store{}
				adjust(s, config)
				s.Configure(config)
				s.DB = pgtest.Pool(t, config)
				t.Cleanup(func() { require.NoError(t, s.Close()) })
				require.NoError(t, s.CreateSchema(t.Context()))
				_, err = s.DB.Exec(t.Context(), `TRUNCATE semel_keys`)
				require.NoError(t, err)
				return s
			})
		})
	}
}
