package pgstore

import (
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"
)

// modes are ways to reach the database that change how statements travel.
var modes = map[string]func(*Store, *pgxpoolConfig){
	"prepared": func(*Store, *pgxpoolConfig) {},
	"pooler":   func(s *Store, _ *pgxpoolConfig) { s.Pooler = true },
	"exec": func(s *Store, c *pgxpoolConfig) {
		s.Pooler = true
		c.ConnConfig.DefaultQueryExecMode = pgx.QueryExecModeExec
	},
	"simple protocol": func(s *Store, c *pgxpoolConfig) {
		s.Pooler = true
		c.ConnConfig.DefaultQueryExecMode = pgx.QueryExecModeSimpleProtocol
	},
	"repeatable read": func(_ *Store, c *pgxpoolConfig) {
		c.ConnConfig.RuntimeParams["default_transaction_isolation"] = "repeatable read"
	},
	"serializable": func(_ *Store, c *pgxpoolConfig) {
		c.ConnConfig.RuntimeParams["default_transaction_isolation"] = "serializable"
	},
}

// inAllModes runs a test on a fresh store of each mode.
func inAllModes(t *testing.T, test func(*testing.T, *Store)) {
	for name, mode := range modes {
		t.Run(name, func(t *testing.T) { test(t, empty(t, mode)) })
	}
}

func TestPoolerNamesNoStatement(t *testing.T) { // B41
	for _, name := range []string{"pooler", "exec", "simple protocol"} {
		s, effect, _ := effects(t, modes[name], func(s *Store, c *pgxpoolConfig) { c.MaxConns, s.Notify = 1, true })
		require.NoError(t, s.Settle(t.Context(), held(t, s, claimOf("k")), completed()))
		_, err := s.Transact(t.Context(), claimOf("tx"), 0, answering(effect, "tx"))
		require.NoError(t, err)
		_, err = s.Renew(t.Context(), 0, nil)
		require.NoError(t, err)
		require.NoError(t, s.Wait(t.Context(), claimOf("k").ID))
		var prepared, listening int
		require.NoError(t, s.DB.QueryRow(t.Context(), `SELECT count(*) FROM pg_prepared_statements WHERE name <> ''`).Scan(&prepared))
		require.Zero(t, prepared, name)
		require.NoError(t, s.DB.QueryRow(t.Context(), `SELECT count(*) FROM pg_stat_activity WHERE query LIKE 'LISTEN%'`).Scan(&listening))
		require.Zero(t, listening, name)
		var timeout string
		require.NoError(t, s.DB.QueryRow(t.Context(), `SHOW lock_timeout`).Scan(&timeout))
		require.Equal(t, "0", timeout, "nothing is set for longer than its transaction")
	}
}
