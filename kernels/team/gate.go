package team

import (
	"sync/atomic"
	"time"
)

// gate lets helpers into a run and tells the caller when all that came in have left. A helper that comes after the gate was
// closed stays out, so that a run never waits for a thread that is still waking up.
type gate struct {
	state atomic.Uint32 // the number of those inside, and the flags
	empty chan struct{} // capacity 1: the last one that leaves while the caller sleeps says so
}

const (
	gateClosed  = 1 << 31
	gateWaiting = 1 << 30
)

func (g *gate) init() {
	g.empty = make(chan struct{}, 1)
	g.state.Store(gateClosed)
}

func (g *gate) open() { g.state.Store(0) }

// enter is false if the gate is closed.
func (g *gate) enter() bool {
	for {
		state := g.state.Load()
		if state&gateClosed != 0 {
			return false
		}
		if g.state.CompareAndSwap(state, state+1) {
			return true
		}
	}
}

func (g *gate) leave() {
	if g.state.Add(^uint32(0)) == gateClosed|gateWaiting {
		g.empty <- struct{}{}
	}
}

// close closes the gate and waits until nobody is inside. Closing a closed gate does nothing.
func (g *gate) close(spin bool) {
	state := g.state.Or(gateClosed)
	if state&gateClosed != 0 || state == 0 {
		return
	}
	if spin && spinUntil(func() bool { return g.state.Load() == gateClosed }) {
		return
	}
	for {
		state := g.state.Load()
		if state == gateClosed {
			return
		}
		if g.state.CompareAndSwap(state, state|gateWaiting) {
			<-g.empty
			g.state.Store(gateClosed)
			return
		}
	}
}

// spinTime bounds each look-out for the next run or for the end of this one. It is about what putting a thread to sleep and waking
// it costs: waiting longer than that by looking costs more than sleeping would have.
const spinTime = 50 * time.Microsecond

// spinUntil looks at a condition for at most spinTime; false if it never held. It holds on to a CPU, hence the bound.
func spinUntil(condition func() bool) bool {
	begin := time.Now()
	for {
		for range 4 {
			if condition() {
				return true
			}
			pause()
		}
		if time.Since(begin) > spinTime {
			return false
		}
	}
}
