package proof

import (
	"context"
	"flag"
	"net"
	"os"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/semel-go/semel/semeltest"
	"github.com/semel-go/semel/testserver"
	"github.com/semel-go/semel/testserver/pgstore"
	"github.com/semel-go/semel/testserver/pgstore/pgtest"
)

var (
	sockets  = flag.Int("sockets", 60, "random worlds on real sockets")
	postgres = flag.Int("postgres", 16, "random worlds on real sockets and real Postgres")
)

// The same worlds in real time: nothing of the pair, of net/http or of the kernel is simulated. What depends on how quick
// the machine is, is not judged.

func TestWorldsOnRealSockets(t *testing.T) {
	realWorlds(t, *sockets, func(*testing.T) (testserver.Transactor, testserver.Ledger) { return new(testserver.MemStore), nil })
}

func TestWorldsOnRealPostgres(t *testing.T) {
	realWorlds(t, *postgres, func(t *testing.T) (testserver.Transactor, testserver.Ledger) {
		config, err := pgxpool.ParseConfig(pgtest.DSN(t))
		if err != nil {
			t.Fatal(err)
		}
		store := new(pgstore.Store)
		store.Configure(config)
		config.MaxConns = 8
		store.DB = pgtest.Pool(t, config)
		t.Cleanup(func() { store.Close() })
		ledger := &pgstore.Ledger{DB: store.DB}
		if err := store.CreateSchema(t.Context()); err != nil {
			t.Fatal(err)
		}
		if err := ledger.CreateSchema(t.Context()); err != nil {
			t.Fatal(err)
		}
		return store, ledger
	})
}

// realWorlds runs several worlds at a time: mostly they wait.
func realWorlds(t *testing.T, n int, keys func(*testing.T) (testserver.Transactor, testserver.Ledger)) {
	t.Helper()
	t.Parallel() // with each other
	table := new(truthTable)
	next := make(chan Seed)
	var group sync.WaitGroup
	for range 20 {
		group.Go(func() {
			for s := range next {
				store, ledger := keys(t)
				w := realWorld(s.plan().real(), store, ledger)
				if found := judged(w, nil, table); len(found) > 0 {
					t.Error(report(w, s, t.Name(), found))
				}
			}
		})
	}
	if one, err := strconv.ParseUint(os.Getenv("SEMEL_SEED"), 10, 64); err == nil {
		n = 0
		next <- Seed(one)
	}
	for s := range n {
		next <- Seed(s)
	}
	close(next)
	group.Wait()
	t.Logf("%d worlds\n%s", n, table)
}

func realWorld(p *plan, keys testserver.Transactor, ledger testserver.Ledger) *world {
	w := &world{plan: p, history: newHistory(), arrivals: make(map[int]int), audited: make(map[int]int64)}
	proxy := &semeltest.Proxy{Plan: w.conn}
	var address atomic.Value
	address.Store("127.0.0.1:1")
	w.build(parts{
		keys:   keys,
		ledger: ledger,
		listen: func() net.Listener {
			l, err := net.Listen("tcp", "127.0.0.1:0")
			if err != nil {
				panic(err) // no loopback, no test
			}
			address.Store(l.Addr().String())
			return l
		},
		dial: func(ctx context.Context, network, _ string) (net.Conn, error) {
			return proxy.DialContext(ctx, network, address.Load().(string))
		},
		cut: func() {}, // the server does it
	}, correct)
	w.run()
	proxy.Close()
	return w
}
