//go:build unix

package pgstore_test

import (
	"context"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/semel-go/semel/testserver/pgstore/pgtest"
)

// What the proxy claims to do to a statement, it must do: the other tests rest on it.
func TestTheFaultProxyHitsCOMMITAsItSays(t *testing.T) {
	dsn := pgtest.DSN(t)
	direct := connectTo(t, dsn)
	if _, err := direct.Exec(t.Context(), "CREATE TABLE t (n int)"); err != nil {
		t.Fatal(err)
	}
	for _, tt := range []struct {
		name      string
		fault     wireFault
		committed bool
	}{
		{"lost", loseRequest, false},
		{"answer lost", loseAnswer, true},
		{"stalled", stall, false},
		{"answer stalled", stallAnswer, true},
	} {
		for _, pipelined := range []bool{false, true} {
			name := tt.name
			if pipelined {
				name += ", prepared and pipelined"
			}
			t.Run(name, func(t *testing.T) {
				if _, err := direct.Exec(t.Context(), "TRUNCATE t"); err != nil {
					t.Fatal(err)
				}
				p := newFaultProxy(t, hostOf(t, dsn))
				conn := connectTo(t, via(t, dsn, p.addr()))
				if pipelined {
					for _, sql := range []string{"BEGIN", "INSERT INTO t VALUES (1)", "COMMIT"} {
						if _, err := conn.Prepare(t.Context(), sql, sql); err != nil {
							t.Fatal(err)
						}
					}
				}
				commits := p.onCommits(1, tt.fault)
				ctx, cancel := context.WithCancel(t.Context())
				done := make(chan error, 1)
				go func() { done <- insertAndCommit(ctx, conn, pipelined) }()
				eventually(t, func() bool {
					return commits.Load() == 1 && (!tt.committed || rows(t, direct, "t") == 1)
				})
				if tt.fault == loseRequest || tt.fault == loseAnswer {
					defer cancel()
				} else {
					cancel()
				}
				if err := <-done; err == nil {
					t.Fatal("COMMIT was answered")
				}
				p.Reset() // frees the row of a transaction that still waits
				if n := rows(t, direct, "t"); (n == 1) != tt.committed {
					t.Fatalf("%d rows, committed should be %v", n, tt.committed)
				}
			})
		}
	}
}

func insertAndCommit(ctx context.Context, conn *pgx.Conn, pipelined bool) error {
	if pipelined {
		var b pgx.Batch
		b.Queue("BEGIN")
		b.Queue("INSERT INTO t VALUES (1)")
		b.Queue("COMMIT")
		return conn.SendBatch(ctx, &b).Close()
	}
	tx, err := conn.Begin(ctx)
	if err != nil {
		return err
	}
	if _, err := tx.Exec(ctx, "INSERT INTO t VALUES (1)"); err != nil {
		return err
	}
	return tx.Commit(ctx)
}

func connectTo(t *testing.T, dsn string) *pgx.Conn {
	t.Helper()
	conn, err := pgx.Connect(t.Context(), dsn)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { conn.Close(context.Background()) })
	return conn
}

func rows(t *testing.T, conn *pgx.Conn, from string) (n int) {
	t.Helper()
	if err := conn.QueryRow(t.Context(), "SELECT count(*) FROM "+from).Scan(&n); err != nil {
		t.Fatal(err)
	}
	return n
}

// eventually waits for what must come, however slow the machine is.
func eventually(t *testing.T, ok func() bool) {
	t.Helper()
	for range 3000 {
		if ok() {
			return
		}
		time.Sleep(10 * time.Millisecond)
	}
	t.Fatal("it does not come")
}
