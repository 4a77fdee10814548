//go:build unix

package pgstore_test

import (
	"context"
	"fmt"
	"net"
	"net/http"
	"os"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/semel-go/semel/testserver"
	"github.com/semel-go/semel/testserver/pgstore/pgtest"
)

// servers.md B41.
func TestBehindPgBouncerInTransactionModeEachOperationIsAnsweredAndHappensOnce(t *testing.T) {
	eachEffect(t, func(t *testing.T, effect testserver.Effect) {
		direct := pgtest.DSN(t)
		w := newWorld(t, 2, direct, serverSpec{Effect: effect, DSN: via(t, direct, startPgBouncer(t, direct)), Pooler: true, Conns: 16})
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		results := w.load(ctx, 16, 40, loseEveryFifth)
		w.judge(results)
		for _, r := range results {
			if r.status != http.StatusCreated {
				t.Errorf("%s: status %d", r.name, r.status)
			}
		}
	})
}

// startPgBouncer lets many clients share four connections to the database, each for one transaction.
func startPgBouncer(t *testing.T, dsn string) string {
	t.Helper()
	bouncer := program(t, "pgbouncer", "pgbouncer")
	c, err := pgx.ParseConfig(dsn)
	if err != nil {
		t.Fatal(err)
	}
	password := ""
	if c.Password != "" {
		password = " password='" + c.Password + "'"
	}
	config := fmt.Sprintf(`
[databases]
%s = host=%s port=%d user=%s%s
[pgbouncer]
listen_addr = 127.0.0.1
listen_port = PORT
unix_socket_dir =
auth_type = any
pool_mode = transaction
default_pool_size = 4
max_client_conn = 200
`, c.Database, c.Host, c.Port, c.User, password)
	return startDaemon(t, config, func(file string) []string {
		if os.Geteuid() == 0 { // which it refuses to be
			return []string{bouncer, "-u", "nobody", file}
		}
		return []string{bouncer, file}
	})
}

// faults.md 42. One of two servers does all that it is asked and never gets an answer through, and nginx asks the other.
func TestANginxThatResendsDoublesNothing(t *testing.T) {
	eachEffect(t, func(t *testing.T, effect testserver.Effect) {
		dsn := pgtest.DSN(t)
		w := newWorld(t, 1, dsn, serverSpec{Effect: effect})
		deaf := startProcess(t, serverSpec{DSN: dsn, Effect: effect, Lease: lease, Provider: w.provider.url, Deaf: true})
		addr := startNginx(t, deaf.addr, w.servers[0].addr)
		w.client = w.newClient(func(int) string { return addr })
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		results := w.load(ctx, 8, 20, nil)
		w.judge(results)
		resent := 0
		for _, r := range results {
			if r.status != http.StatusCreated {
				t.Errorf("%s: status %d", r.name, r.status)
			}
			if r.replayed && r.sent.Load() == 1 {
				resent++
			}
		}
		if resent == 0 {
			t.Error("nginx resent nothing")
		}
		t.Logf("%d of %d operations were answered by a replay to nginx's own repeat", resent, len(results))
	})
}

// faults.md 17, 42. nginx loses patience with a server that still works, and asks the other one meanwhile.
func TestANginxThatResendsWhileTheFirstServerStillWorksDoublesNothing(t *testing.T) {
	eachEffect(t, func(t *testing.T, effect testserver.Effect) {
		w := newWorld(t, 2, pgtest.DSN(t), serverSpec{Effect: effect})
		addr := startNginx(t, w.servers[0].addr, w.servers[1].addr)
		w.client = w.newClient(func(int) string { return addr })
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		results := w.load(ctx, 4, 3, func(_ int, h http.Header) { h.Set(slowHeader, "700ms") })
		w.judge(results)
		for _, r := range results {
			if r.status != http.StatusCreated {
				t.Errorf("%s: status %d", r.name, r.status)
			}
		}
	})
}

// startNginx balances requests between the servers, and repeats those that fail or take too long, POSTs too.
func startNginx(t *testing.T, servers ...string) string {
	t.Helper()
	nginx := program(t, "nginx", "nginx-light")
	upstream := ""
	for _, s := range servers {
		if _, _, err := net.SplitHostPort(s); err != nil {
			t.Fatal(err)
		}
		upstream += "server " + s + " max_fails=0; "
	}
	return startDaemon(t, `
daemon off;
master_process off;
pid DIR/pid;
error_log stderr crit;
events { worker_connections 512; }
http {
	access_log off;
	client_body_temp_path DIR/body;
	proxy_temp_path DIR/proxy;
	fastcgi_temp_path DIR/fastcgi;
	uwsgi_temp_path DIR/uwsgi;
	scgi_temp_path DIR/scgi;
	upstream bank { `+upstream+`}
	server {
		listen 127.0.0.1:PORT;
		location / {
			proxy_pass http://bank;
			proxy_read_timeout 300ms;
			proxy_next_upstream error timeout http_502 http_503 http_504 non_idempotent;
		}
	}
}
`, func(file string) []string { return []string{nginx, "-p", t.TempDir(), "-c", file} })
}
