package proof

import (
	"context"
	"net"
	"net/http"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/semel-go/semel/semeltest"
	"github.com/semel-go/semel/testserver"
)

// A world is a plan that runs: one client process or two, one server process or two, and what is between them.
type world struct {
	plan    *plan
	defect  defect
	history *History
	gate    *gate // nil: nobody is held

	parts
	bank  *testserver.Bank
	store testserver.Transactor // as the guard sees it

	server     atomic.Pointer[process] // nil while there is none
	calm       atomic.Bool
	storeCalls atomic.Int32
	background crew // what the network and dead clients still do

	mu       sync.Mutex
	arrivals map[int]int // of each job
	old      []*process
	saved    []resumable
	audited  map[int]int64 // the payload of each call of the audit
}

// funds is what each account has at first.
const funds = 1 << 20

// parts are what is simulated in some worlds, and real in others.
type parts struct {
	keys   testserver.Transactor
	ledger testserver.Ledger // nil: in memory
	listen func() net.Listener
	dial   func(ctx context.Context, network, address string) (net.Conn, error)
	cut    func() // every connection, and the listener
}

// simulated makes the parts of a world in simulated time.
func simulated(conn func(n int) semeltest.Plan) parts {
	n := &semeltest.Network{Plan: conn}
	return parts{keys: new(testserver.MemStore), listen: n.Listen, dial: n.DialContext, cut: n.Reset}
}

// newWorld makes the simulated world of a plan, with parts under test that are right or, as the defect says, wrong.
func newWorld(p *plan, d func(*world) defect) *world {
	w := &world{plan: p, history: newHistory(), arrivals: make(map[int]int), audited: make(map[int]int64)}
	w.build(simulated(w.conn), d)
	return w
}

func (w *world) build(p parts, d func(*world) defect) {
	w.parts, w.bank = p, &testserver.Bank{Ledger: p.ledger}
	for account := range accounts {
		w.bank.Open(account, funds)
	}
	w.defect = d(w)
	w.store = w.defect.store(&shakyStore{p.keys, w})
}

// accounts of the bank, and their numbers.
var accounts = map[string]int{"alice": 0, "bob": 1, "carol": 2}

// conn is the plan of a connection, while things still go wrong.
func (w *world) conn(n int) semeltest.Plan {
	if w.calm.Load() {
		return semeltest.Plan{}
	}
	return w.plan.conn(n)
}

func (w *world) arrives(job int) int {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.arrivals[job]++
	return w.arrivals[job]
}

// run lets everything happen, and then asks what is left.
func (w *world) run() {
	w.start()
	client := w.newClient()
	if w.plan.restart > 0 {
		w.background.Go(w.restart)
	}
	var callers sync.WaitGroup
	for _, j := range w.plan.jobs {
		w.employ(j, client, &callers)
	}
	callers.Wait()
	w.gate.open()
	w.background.Wait()
	time.Sleep(w.plan.lull())
	w.settleDown()
	w.audit()
	client.close()
	w.takeUpLate()
	w.background.Wait()
	w.end()
}

// settleDown ends the faults. What the network still carries arrives first.
func (w *world) settleDown() {
	w.calm.Store(true)
	w.history.add(Event{Kind: Calm})
	time.Sleep(w.plan.lull())
}

func (w *world) restart() {
	time.Sleep(w.plan.restart)
	p := w.server.Load()
	p.die()
	w.mu.Lock()
	w.old = append(w.old, p)
	w.mu.Unlock()
	time.Sleep(w.plan.down)
	w.start()
}

func (w *world) end() {
	w.server.Load().stop()
	for _, p := range w.old {
		p.stop()
	}
	w.cut()
	if w.plan.pace == 1 {
		time.Sleep(10 * time.Minute) // whatever lingers must be gone by now
	}
}

// bubble runs the world in simulated time and returns it for the judge. A goroutine that is left behind, or a deadlock, is a
// panic of the bubble: broken says so.
func bubble(t *testing.T, p *plan, d func(*world) defect) (w *world, broken any) {
	t.Helper()
	broken = caughtPanic(func() {
		synctest.Test(t, func(*testing.T) {
			w = newWorld(p, d)
			w.run()
		})
	})
	return w, broken
}

// A base is what a client process sends its attempts with.
type base struct {
	http.RoundTripper
	idle func()
}

func (w *world) newBase() base {
	if w.plan.direct {
		return base{&directTrip{world: w}, func() {}}
	}
	tr := &http.Transport{DialContext: w.dial, IdleConnTimeout: time.Minute} // some are dialled for a caller who has gone
	if w.plan.http2 {
		tr.Protocols = new(http.Protocols)
		tr.Protocols.SetUnencryptedHTTP2(true)
	}
	if w.plan.wrapped {
		return base{hidden{tr}, tr.CloseIdleConnections}
	}
	return base{tr, tr.CloseIdleConnections}
}
