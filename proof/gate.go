package proof

import (
	"slices"
	"sync"
	"testing/synctest"
	"time"
)

// moment is less than anything here takes, and more than simultaneous callers are apart.
const moment = 10 * time.Microsecond

// A gate holds whoever comes to it until everything else stands still, and then lets exactly one go: the one that the
// schedule chooses. While somebody is held hardly any time passes.
type gate struct {
	choose func(n int) int        // from 0; of n who are held, by name
	free   func(name string) bool // those are not held; if nil, all are

	mu     sync.Mutex
	held   map[string]chan struct{}
	opened bool
	wake   chan struct{}
	stop   chan struct{}
	passed []string // in their order
}

func newGate(choose func(n int) int) *gate {
	return &gate{choose: choose, held: make(map[string]chan struct{}), wake: make(chan struct{}, 1), stop: make(chan struct{})}
}

// at holds the caller. Two of one name are told apart by the order in which they come.
func (g *gate) at(name string) {
	pass := make(chan struct{})
	g.mu.Lock()
	if g.opened || g.free != nil && g.free(name) {
		g.mu.Unlock()
		return
	}
	for g.held[name] != nil {
		name += "'"
	}
	g.held[name] = pass
	g.mu.Unlock()
	select {
	case g.wake <- struct{}{}:
	default:
	}
	<-pass
}

// open lets everybody pass from now on. A nil gate holds nobody.
func (g *gate) open() {
	if g == nil {
		return
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	g.opened = true
	for _, pass := range g.held {
		close(pass)
	}
	clear(g.held)
	close(g.stop)
}

// run lets one after the other go, until the gate is open.
func (g *gate) run() {
	for {
		select {
		case <-g.wake:
		case <-g.stop:
			return
		}
		for g.rest(); g.next(); g.rest() {
		}
	}
}

// rest waits until everything stands still, those included who come a moment later: timers of one instant have no order.
func (g *gate) rest() {
	time.Sleep(moment)
	synctest.Wait()
}

func (g *gate) next() bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	if len(g.held) == 0 {
		return false
	}
	names := make([]string, 0, len(g.held))
	for name := range g.held {
		names = append(names, name)
	}
	slices.Sort(names)
	name := names[g.choose(len(names))]
	close(g.held[name])
	delete(g.held, name)
	g.passed = append(g.passed, name)
	return true
}
