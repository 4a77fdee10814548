package proof

import "sync"

// A crew is what is done in the background. Unlike with a sync.WaitGroup, more may begin while somebody waits for its end.
type crew struct {
	mu   sync.Mutex
	busy int
	idle chan struct{} // closed when nothing is done any more; nil if nobody waits
}

// Go does it in the background.
func (c *crew) Go(do func()) {
	c.mu.Lock()
	c.busy++
	c.mu.Unlock()
	go func() {
		defer c.done()
		do()
	}()
}

func (c *crew) done() {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.busy--; c.busy == 0 && c.idle != nil {
		close(c.idle)
		c.idle = nil
	}
}

// Wait returns when there is nothing left to do.
func (c *crew) Wait() {
	c.mu.Lock()
	if c.busy == 0 {
		c.mu.Unlock()
		return
	}
	if c.idle == nil {
		c.idle = make(chan struct{})
	}
	idle := c.idle
	c.mu.Unlock()
	<-idle
}
