package pgtest_test

import (
	"runtime"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/semel-go/semel/testserver/pgstore/pgtest"
)

func connect(t *testing.T, dsn string) *pgx.Conn {
	t.Helper()
	conn, err := pgx.Connect(t.Context(), dsn)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { conn.Close(t.Context()) })
	return conn
}

func run(t *testing.T, conn *pgx.Conn, sql string) {
	t.Helper()
	if _, err := conn.Exec(t.Context(), sql); err != nil {
		t.Fatal(err)
	}
}

func count(t *testing.T, conn *pgx.Conn, from string) (n int) {
	t.Helper()
	if err := conn.QueryRow(t.Context(), "SELECT count(*) FROM "+from).Scan(&n); err != nil {
		t.Fatal(err)
	}
	return n
}

func TestEachDatabaseIsFreshAndItsOwn(t *testing.T) {
	a, b := connect(t, pgtest.DSN(t)), connect(t, pgtest.DSN(t))
	run(t, a, "CREATE TABLE t (n int)")
	if n := count(t, b, "pg_tables WHERE schemaname = 'public'"); n != 0 {
		t.Fatalf("the second database has %d tables", n)
	}
	if n := count(t, a, "pg_settings WHERE name = 'synchronous_commit' AND setting = 'on'"); n != 1 {
		t.Fatal("synchronous_commit is not on")
	}
}

func TestACrashedClusterComesBackWithWhatWasCommitted(t *testing.T) {
	c := pgtest.Start(t)
	dsn := c.DSN(t)
	conn := connect(t, dsn)
	run(t, conn, "CREATE TABLE t (n int)")
	run(t, conn, "INSERT INTO t VALUES (1)")
	run(t, conn, "BEGIN")
	run(t, conn, "INSERT INTO t VALUES (2)")
	c.Crash(t)
	if _, err := conn.Exec(t.Context(), "COMMIT"); err == nil {
		t.Fatal("COMMIT reached a crashed server")
	}
	if _, err := pgx.Connect(t.Context(), dsn); err == nil {
		t.Fatal("a crashed server accepts connections")
	}
	c.Start(t)
	if n := count(t, connect(t, dsn), "t"); n != 1 {
		t.Fatalf("%d rows survived, want the committed one", n)
	}
	c.Stop(t)
	c.Start(t)
	if n := count(t, connect(t, dsn), "t"); n != 1 {
		t.Fatalf("%d rows after an orderly restart, want 1", n)
	}
}

func TestTerminateEndsEveryConnection(t *testing.T) {
	c := pgtest.Start(t, "fsync=off")
	conn := connect(t, c.DSN(t))
	if n := c.Terminate(t); n < 1 {
		t.Fatalf("terminated %d connections", n)
	}
	if _, err := conn.Exec(t.Context(), "SELECT 1"); err == nil {
		t.Fatal("the connection lives")
	}
}

func TestTheSharedClusterOutlivesTheGarbageCollector(t *testing.T) {
	conn := connect(t, pgtest.DSN(t))
	for range 3 {
		runtime.GC()
		time.Sleep(200 * time.Millisecond) // what is shut down would be gone by then
		run(t, conn, "SELECT 1")
	}
}
