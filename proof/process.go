package proof

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log"
	"net/http"
	"strings"
	"sync/atomic"
	"time"

	"github.com/semel-go/semel/testserver"
)

// A process is one life of the server. What it knows is lost with it; store and bank are not.
type process struct {
	world *world
	nodes []node
	outer http.Handler
	http  *http.Server
	dead  atomic.Bool
	died  chan struct{}
}

var errDead = errors.New("proof: the process has died")

// A node is one guard of several that share the store. They live and die together here.
type node struct {
	guard *testserver.Guard
	inner http.Handler // what is behind the door
}

// start makes a server process over the world's store and bank.
func (w *world) start() *process {
	p := &process{world: w, died: make(chan struct{})}
	for range w.plan.nodes {
		g := p.newGuard()
		p.nodes = append(p.nodes, node{g, w.defect.front(g)})
	}
	p.outer = p.door()
	if !w.plan.direct {
		p.http = &http.Server{Handler: p.outer, ErrorLog: log.New(io.Discard, "", 0)}
		if w.plan.http2 {
			p.http.Protocols = new(http.Protocols)
			p.http.Protocols.SetUnencryptedHTTP2(true)
		}
		l := w.listen()
		go p.http.Serve(l)
	}
	w.server.Store(p)
	return p
}

func (p *process) newGuard() *testserver.Guard {
	w := p.world
	g := &testserver.Guard{
		Next:                w.defect.handler(p.worker(w.bank)),
		Store:               &spy{Transactor: w.store, process: p},
		Scope:               testserver.GlobalScope,
		Effect:              w.plan.effect,
		Lease:               w.plan.lease,
		Retention:           w.plan.retention,
		DownstreamRetention: w.plan.downstream,
		Fault:               w.defect.fault(w.fault),
	}
	if w.plan.recovers {
		g.Recover = w.ask
	}
	w.defect.guard(g)
	return g
}

// inner is what is behind the door for an arrival: one of the nodes.
func (p *process) inner(a *arrival) http.Handler {
	return p.nodes[p.world.plan.seed.Pick(len(p.nodes), "node", a.job, a.n)].inner
}

// die ends the process as kill -9 does.
func (p *process) die() {
	w := p.world
	w.history.add(Event{Kind: Restarted})
	p.dead.Store(true)
	w.server.Store(nil)
	close(p.died)
	if p.http != nil {
		w.cut()
		p.http.Close()
	}
}

// worker runs the bank, and writes down when.
func (p *process) worker(bank http.Handler) http.Handler {
	w := p.world
	return http.HandlerFunc(func(rw http.ResponseWriter, r *http.Request) {
		if r.Method != http.MethodPost {
			bank.ServeHTTP(rw, r)
			return
		}
		if p.dead.Load() {
			panic(http.ErrAbortHandler)
		}
		a := arrivalIn(r.Context())
		hold, _ := testserver.HoldFrom(r.Context())
		w.history.add(Event{Kind: Began, Job: a.job, Call: a.call, Try: a.try, Arrival: a.n, Copy: a.copy, ID: hold.ID, Hold: hold})
		reply := &watchedReply{ResponseWriter: rw}
		if w.plan.redirect == http.StatusSeeOther {
			bank.ServeHTTP(seeOther{reply}, r)
		} else {
			bank.ServeHTTP(reply, r)
		}
		w.history.add(Event{Kind: Ended, Job: a.job, Call: a.call, Try: a.try, Arrival: a.n, Copy: a.copy, ID: hold.ID, Hold: hold,
			Status: reply.status, Body: reply.body.String()})
	})
}

// seeOther makes 303 of the bank's 201: the answer is elsewhere.
type seeOther struct{ *watchedReply }

func (s seeOther) WriteHeader(status int) {
	if status == http.StatusCreated {
		status = http.StatusSeeOther
	}
	s.watchedReply.WriteHeader(status)
}

// ask is the guard's Recover: the bank knows which transfers it has made.
func (w *world) ask(_ *http.Request, rec testserver.Record) (*testserver.Answer, error) {
	for _, t := range w.bank.Transfers() {
		if t.Operation == rec.ID {
			status := http.StatusCreated
			if w.plan.redirect == http.StatusSeeOther {
				status = http.StatusSeeOther
			}
			return &testserver.Answer{Status: status, Header: []testserver.Field{
				{Name: "Content-Type", Value: "application/json"},
				{Name: "Location", Value: fmt.Sprintf("/transfers/%d", t.ID)},
			}, Body: []byte(transferBody(t))}, nil
		}
	}
	if w.plan.effect == testserver.Keyed {
		return nil, testserver.ErrNotDone
	}
	return nil, nil
}

// transferBody is the reply to a transfer, as the bank makes it.
func transferBody(t testserver.Transfer) string {
	var b strings.Builder
	fmt.Fprintf(&b, `{"id":%d,"from":%q,"to":%q,"amount":%d}`+"\n", t.ID, t.From, t.To, t.Amount)
	return b.String()
}

// stop ends the process at the end of the world, and waits for what it still does.
func (p *process) stop() {
	if p == nil {
		return
	}
	if p.http != nil {
		p.http.Close()
	}
	ctx, cancel := context.WithTimeout(context.Background(), time.Hour)
	defer cancel()
	for _, n := range p.nodes {
		if err := n.guard.Drain(ctx); err != nil {
			p.world.history.add(Event{Kind: Unrested, Err: err})
		}
	}
}
