package pgtest

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"os"
	osexec "os/exec"
	"path/filepath"
	"strconv"
	"syscall"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
)

// startLimit bounds how long a server may take to accept connections, crash recovery included.
const startLimit = 2 * time.Minute

// A Cluster is a Postgres server of one test, which may crash and restart it. Its methods are called from one goroutine.
type Cluster struct {
	bin      string
	dir      string // removed by the watchdog
	port     int
	settings []string
	watchdog *watchdog
	server   *osexec.Cmd   // nil while stopped
	exited   chan struct{} // closed once the server is gone
}

// Start starts a cluster for this test alone, from local or downloaded binaries even if [EnvURL] names a server, since
// nobody else's server may be crashed. It is as durable as Postgres is by default; settings are given as "name=value".
func Start(tb testing.TB, settings ...string) *Cluster {
	tb.Helper()
	c, err := start(settings...)
	if err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(func() {
		c.Crash(tb)
		c.watchdog.end()
	})
	return c
}

// DSN returns the connection string of a fresh empty database on this cluster.
func (c *Cluster) DSN(tb testing.TB) string {
	tb.Helper()
	return newDatabase(tb, c.dsn("postgres"))
}

// Addr returns the TCP address of the server, which stays the same over restarts.
func (c *Cluster) Addr() string { return net.JoinHostPort("127.0.0.1", strconv.Itoa(c.port)) }

// Crash stops the server as pg_ctl stop -m immediate does: every backend dies at once, and the next start recovers from
// the log. It returns once the server is gone.
func (c *Cluster) Crash(tb testing.TB) {
	tb.Helper()
	c.stop(tb, syscall.SIGQUIT)
}

// Stop stops the server as pg_ctl stop -m fast does: open transactions are rolled back, connections closed.
func (c *Cluster) Stop(tb testing.TB) {
	tb.Helper()
	c.stop(tb, syscall.SIGINT)
}

// Start starts a stopped server again on the same data and port, and returns once it accepts connections.
func (c *Cluster) Start(tb testing.TB) {
	tb.Helper()
	if err := c.launch(); err != nil {
		tb.Fatal(err)
	}
}

// Terminate ends all client connections to the server, by pg_terminate_backend, and returns how many there were.
func (c *Cluster) Terminate(tb testing.TB) int {
	tb.Helper()
	ctx, cancel := context.WithTimeout(tb.Context(), time.Minute)
	defer cancel()
	conn, err := pgx.Connect(ctx, c.dsn("postgres"))
	if err != nil {
		tb.Fatalf("pgtest: cannot reach the server to terminate its backends: %v", err)
	}
	defer conn.Close(ctx)
	var n int
	err = conn.QueryRow(ctx, `SELECT count(pg_terminate_backend(pid)) FROM pg_stat_activity
		WHERE backend_type = 'client backend' AND pid <> pg_backend_pid()`).Scan(&n)
	if err != nil {
		tb.Fatalf("pgtest: cannot terminate the backends: %v", err)
	}
	return n
}

func start(settings ...string) (*Cluster, error) {
	bin, err := binaries()
	if err != nil {
		return nil, err
	}
	c := &Cluster{bin: bin, settings: settings}
	if c.dir, err = tempDir(); err != nil {
		return nil, err
	}
	if c.watchdog, err = watch(c.dir); err != nil {
		os.RemoveAll(c.dir)
		return nil, err
	}
	initdb := osexec.Command(filepath.Join(bin, "initdb"), "-D", c.data(), "-U", "semel", "-A", "trust", "-E", "UTF8",
		"--locale=C", "--no-sync")
	c.prepare(initdb)
	if out, err := initdb.CombinedOutput(); err != nil {
		c.watchdog.end()
		return nil, fmt.Errorf("pgtest: initdb: %w\n%s", err, out)
	}
	// Below the usual range of ephemeral ports, so that no outgoing connection takes the port during a restart. A port
	// that is in use makes the server exit, and another one is tried.
	for range 20 {
		c.port = 15000 + rand.IntN(15000)
		if err = c.launch(); err == nil || !bytes.Contains(c.log(), []byte("could not bind")) {
			break
		}
	}
	if err != nil {
		c.watchdog.end()
		return nil, err
	}
	return c, nil
}

func (c *Cluster) data() string { return filepath.Join(c.dir, "data") }

func (c *Cluster) log() []byte {
	log, _ := os.ReadFile(filepath.Join(c.dir, "log"))
	return log
}

func (c *Cluster) dsn(database string) string {
	return fmt.Sprintf("postgres://semel@%s/%s?sslmode=disable", c.Addr(), database)
}

// prepare lets a command of the server run on its own, as a user whom Postgres accepts.
func (c *Cluster) prepare(cmd *osexec.Cmd) {
	cmd.Dir = c.dir
	cmd.Env = append(os.Environ(), "LC_ALL=C", "PGDATA="+c.data())
	cmd.SysProcAttr = asServerUser()
}

// launch starts the server and waits until it accepts connections.
func (c *Cluster) launch() error {
	if c.server != nil {
		return errors.New("pgtest: the server runs already")
	}
	log, err := os.Create(filepath.Join(c.dir, "log"))
	if err != nil {
		return err
	}
	defer log.Close()
	args := []string{"-D", c.data(), "-c", "listen_addresses=127.0.0.1", "-c", "port=" + strconv.Itoa(c.port),
		"-c", "unix_socket_directories=", "-c", "max_connections=300"}
	for _, s := range c.settings {
		args = append(args, "-c", s)
	}
	server := osexec.Command(filepath.Join(c.bin, "postgres"), args...)
	c.prepare(server)
	server.Stdout, server.Stderr = log, log
	if err := server.Start(); err != nil {
		return fmt.Errorf("pgtest: cannot start postgres: %w", err)
	}
	exited := make(chan struct{})
	go func() {
		defer close(exited)
		_ = server.Wait() // how it ended is in its log
	}()
	c.server, c.exited = server, exited
	if err := c.ready(); err != nil {
		_ = c.signal(syscall.SIGQUIT)
		return fmt.Errorf("pgtest: the server does not start: %w\n%s", err, c.log())
	}
	return nil
}

// ready waits until the server accepts connections.
func (c *Cluster) ready() error {
	ctx, cancel := context.WithTimeout(context.Background(), startLimit)
	defer cancel()
	for {
		// A stranger may own the port; then this server exits.
		conn, err := pgx.Connect(ctx, c.dsn("postgres"))
		if err == nil {
			var dir string
			err = conn.QueryRow(ctx, "SHOW data_directory").Scan(&dir)
			conn.Close(ctx)
			if err == nil && dir == c.data() {
				return nil
			}
		}
		select {
		case <-c.exited:
			return fmt.Errorf("it exited: %w", err)
		case <-ctx.Done():
			return err
		case <-time.After(20 * time.Millisecond):
		}
	}
}

func (c *Cluster) stop(tb testing.TB, how syscall.Signal) {
	tb.Helper()
	if err := c.signal(how); err != nil {
		tb.Fatal(err)
	}
}

// signal sends the signal and waits until the server is gone.
func (c *Cluster) signal(how syscall.Signal) error {
	if c.server == nil {
		return nil
	}
	// An error means that it has exited.
	_ = c.server.Process.Signal(how)
	select {
	case <-c.exited:
	case <-time.After(startLimit):
		return fmt.Errorf("pgtest: the server ignored %v", how)
	}
	c.server = nil
	return nil
}
