package pgstore

import (
	"context"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/stretchr/testify/require"

	"github.com/semel-go/semel/testserver"
	"github.com/semel-go/semel/testserver/pgstore/pgtest"
)

// TestBadSurroundings: each call fails with a sentence that helps, the guard answers 503 as a problem, and nothing runs.
func TestBadSurroundings(t *testing.T) { // B47
	exec := func(t *testing.T, dsn, sql string) {
		pool, err := pgxpool.New(t.Context(), dsn)
		require.NoError(t, err)
		defer pool.Close()
		_, err = pool.Exec(t.Context(), sql)
		require.NoError(t, err)
	}
	for name, c := range map[string]struct {
		prepare string // SQL
		dsn     func(string) string
		store   func(*testing.T, *Store)
		says    string
		schema  string // what CreateSchema says; "" if it succeeds
	}{
		"no server": {dsn: func(string) string { return "postgres://semel@127.0.0.1:1/x" }, says: "no connection to be had", schema: "failed to connect"},
		"no database": {dsn: func(d string) string { return strings.Replace(d, "?", "_not?", 1) },
			says: "refuses this role, password or database", schema: "refuses this role"},
		"no table": {says: `no table "semel_keys", run CreateSchema`},
		"a table without the key": {prepare: strings.Replace(Schema, "PRIMARY KEY", "NOT NULL", 1),
			says: "another shape", schema: "another shape"},
		"a table without a column": {prepare: Schema + `; ALTER TABLE semel_keys DROP COLUMN fingerprint`, says: "another shape", schema: "another shape"},
		"a table with other types": {prepare: Schema + `; ALTER TABLE semel_keys ALTER COLUMN fingerprint TYPE integer USING 0`, says: "another shape", schema: "another shape"},
		"a table with one more column": {prepare: Schema + `; ALTER TABLE semel_keys ADD COLUMN more integer NOT NULL`,
			says: "another shape", schema: "another shape"},
		"a schema that is missing": {store: func(_ *testing.T, s *Store) { s.Table = "nowhere.keys" }, says: `no table "nowhere"."keys"`, schema: "no table"},
		"a read-only database": {prepare: Schema, dsn: func(d string) string { return d + "&default_transaction_read_only=on" },
			says: "read-only, so connect to the primary", schema: "read-only"},
		"a role without rights": {prepare: Schema, dsn: func(d string) string { return d + "&role=pg_monitor" }, says: "the role may not", schema: "the role may not"},
		"an exhausted pool": {prepare: Schema, store: func(t *testing.T, s *Store) {
			s.Timeout = 100 * time.Millisecond
			for range s.DB.Config().MaxConns {
				conn, err := s.DB.Acquire(t.Context())
				require.NoError(t, err)
				t.Cleanup(conn.Release)
			}
		}, says: "4 of 4 in use, so nothing was sent", schema: "-"},
		"no pool":                   {store: func(_ *testing.T, s *Store) { s.DB = nil }, says: "Store.DB is nil", schema: "-"},
		"a pooler without its mode": {prepare: Schema, store: func(_ *testing.T, s *Store) { s.Pooler = true }, says: "use Configure", schema: "-"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel() // most of it is waiting
			dsn := pgtest.DSN(t)
			if c.prepare != "" {
				exec(t, dsn, c.prepare)
			}
			if c.dsn != nil {
				dsn = c.dsn(dsn)
			}
			config, err := pgxpool.ParseConfig(dsn)
			require.NoError(t, err)
			config.MaxConns = 4
			s := &Store{DB: pgtest.Pool(t, config)}
			t.Cleanup(func() { s.Close() })
			if c.store != nil {
				c.store(t, s)
			}
			if c.schema != "" && c.schema != "-" {
				require.ErrorContains(t, s.CreateSchema(t.Context()), c.schema)
			}
			allCallsSay(t, s, c.says)
			guardAnswers503(t, s)
			if c.schema == "" {
				require.NoError(t, s.CreateSchema(t.Context()), "and then it works")
				held(t, s, claimOf("k"))
			}
		})
	}
}

func allCallsSay(t *testing.T, s *Store, says string) {
	t.Helper()
	ctx, c := t.Context(), claimOf("some key")
	_, err := s.Claim(ctx, c)
	require.ErrorContains(t, err, says)
	require.ErrorContains(t, err, `"some key"`)
	_, err = s.Transact(ctx, c, 0, func(context.Context) (*testserver.Answer, error) {
		t.Error("it ran")
		return answer(), nil
	})
	require.ErrorContains(t, err, says)
	if strings.Contains(says, "read-only") || strings.Contains(says, "shape") { // reading may work
		return
	}
	_, err = s.Renew(ctx, time.Minute, []testserver.Hold{{ID: c.ID}})
	require.ErrorContains(t, err, says)
	require.ErrorContains(t, s.Settle(ctx, testserver.Hold{ID: c.ID}, completed()), says)
	_, err = s.Look(ctx, c.ID)
	require.ErrorContains(t, err, says)
	_, err = s.Purge(ctx, 1)
	require.ErrorContains(t, err, says)
	require.ErrorContains(t, s.Wait(ctx, c.ID), says)
}

func guardAnswers503(t *testing.T, s *Store) {
	t.Helper()
	for _, effect := range []testserver.Effect{testserver.Once, testserver.Transactional} {
		g := &testserver.Guard{Store: s, Scope: testserver.GlobalScope, Effect: effect, Lease: time.Second,
			Next: http.HandlerFunc(func(http.ResponseWriter, *http.Request) { t.Error("it ran") })}
		req := httptest.NewRequest("POST", "/", strings.NewReader("x"))
		req.Header.Set("Idempotency-Key", "k")
		w := httptest.NewRecorder()
		g.ServeHTTP(w, req)
		require.Equal(t, 503, w.Code)
		require.Equal(t, "application/problem+json", w.Header().Get("Content-Type"))
		require.Contains(t, w.Body.String(), `"store_unavailable"`)
	}
}

func TestAnOversizeHeaderEndsAsTheGuardSays(t *testing.T) { // B16: done, answer not kept, never again
	s := empty(t, func(s *Store, _ *pgxpoolConfig) { s.MaxAnswer = 1000 })
	runs := 0
	g := &testserver.Guard{Store: s, Scope: testserver.GlobalScope, Lease: time.Second, Effect: testserver.Transactional,
		Next: http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			runs++
			w.Header().Set("X-Large", strings.Repeat("x", 2000))
		})}
	req := httptest.NewRequest("POST", "/", strings.NewReader("x"))
	req.Header.Set("Idempotency-Key", "k")
	w := httptest.NewRecorder()
	g.ServeHTTP(w, req)
	require.Equal(t, 503, w.Code)
	require.Equal(t, 1, runs)
	r, err := s.Look(t.Context(), testserver.ID{Scope: "global", Key: "k"})
	require.NoError(t, err)
	require.Equal(t, testserver.Free, r.State, "the claim has not leaked")
}

func TestCreateSchemaOfManyProcessesAtOnce(t *testing.T) {
	dsn := pgtest.DSN(t)
	errs := make(chan error)
	for range 12 {
		go func() {
			pool, err := pgxpool.New(context.Background(), dsn)
			if err == nil {
				defer pool.Close()
				err = (&Store{DB: pool, Table: "public.my keys"}).CreateSchema(context.Background())
			}
			errs <- err
		}()
	}
	for range 12 {
		require.NoError(t, <-errs)
	}
	s := open(t, dsn, func(s *Store, _ *pgxpoolConfig) { s.Table = "my keys" })
	require.NoError(t, s.Settle(t.Context(), held(t, s, claimOf("k")), completed()))
}
