package cluster

import (
	"sync"
	"time"
)

// calls counts the calls of raft that wait for its answer, so that raft is shut down only when it has none left: the future of an entry that
// was committed but not yet applied at the shutdown is never answered (hashicorp/raft issue 498), and who waits for it waits for ever.
type calls struct {
	mu    sync.Mutex
	open  int
	ended bool
	idle  chan struct{} // made by end, closed when open comes to 0
}

// begin counts a call that done ends; it is false when there shall be no more.
func (c *calls) begin() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.ended {
		return false
	}
	c.open++
	return true
}

func (c *calls) done() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.open--
	if c.ended && c.open == 0 {
		close(c.idle)
	}
}

// end lets no further call begin and waits, limit at most, until all others are done. It may be called once.
func (c *calls) end(limit time.Duration) {
	c.mu.Lock()
	c.ended, c.idle = true, make(chan struct{})
	if c.open == 0 {
		close(c.idle)
	}
	c.mu.Unlock()
	timer := time.NewTimer(limit)
	defer timer.Stop()
	select {
	case <-c.idle:
	case <-timer.C:
	}
}
