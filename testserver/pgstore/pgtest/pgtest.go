// Package pgtest gives tests a real Postgres. It takes, in this order: the server that SEMEL_POSTGRES_URL names; server
// binaries found on this machine, started as a temporary cluster and removed after; binaries that
// fergusstrange/embedded-postgres downloads. When there is none of them a test fails and says how to get one; it is never
// skipped.
//
//	db, err := pgxpool.New(ctx, pgtest.DSN(t))
//
// A temporary cluster ends with the process that started it, however that process ends.
package pgtest

import (
	"context"
	"crypto/rand"
	"fmt"
	"net/url"
	"os"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
)

// EnvURL names the environment variable that points to a Postgres server, as a URL or in keyword=value form. Its role
// must be allowed to create databases.
const EnvURL = "SEMEL_POSTGRES_URL"

// shared is the cluster that all tests of this process use. It is started by the first test that asks for a database.
var shared = sync.OnceValues(func() (string, error) {
	if dsn := os.Getenv(EnvURL); dsn != "" {
		return dsn, nil
	}
	// A database that lives for one test survives everything but the death of this machine.
	c, err := start("fsync=off")
	if err != nil {
		return "", err
	}
	return c.dsn("postgres"), nil
})

// DSN returns the connection string of a fresh empty database, which is dropped when the test ends.
func DSN(tb testing.TB) string {
	tb.Helper()
	dsn, err := shared()
	if err != nil {
		tb.Fatal(err)
	}
	return newDatabase(tb, dsn)
}

// newDatabase makes a database on the server that admin connects to.
func newDatabase(tb testing.TB, admin string) string {
	tb.Helper()
	name := "semel_" + strings.ToLower(rand.Text())
	if err := exec(tb.Context(), admin, "CREATE DATABASE "+name); err != nil {
		tb.Fatalf("pgtest: cannot create a database: %v", err)
	}
	tb.Cleanup(func() {
		// A test that stopped its cluster leaves nothing to drop.
		_ = exec(context.Background(), admin, "DROP DATABASE IF EXISTS "+name+" WITH (FORCE)")
	})
	dsn, err := withDatabase(admin, name)
	if err != nil {
		tb.Fatal(err)
	}
	return dsn
}

// withDatabase returns dsn with another database.
func withDatabase(dsn, name string) (string, error) {
	if !strings.HasPrefix(dsn, "postgres://") && !strings.HasPrefix(dsn, "postgresql://") {
		return dsn + " dbname=" + name, nil // of two values the last one counts
	}
	u, err := url.Parse(dsn)
	if err != nil {
		return "", fmt.Errorf("pgtest: %s is not a URL: %w", EnvURL, err)
	}
	u.Path = "/" + name
	return u.String(), nil
}

func exec(ctx context.Context, dsn, sql string) error {
	ctx, cancel := context.WithTimeout(ctx, time.Minute)
	defer cancel()
	conn, err := pgx.Connect(ctx, dsn)
	if err != nil {
		return err
	}
	defer conn.Close(ctx)
	_, err = conn.Exec(ctx, sql)
	return err
}
