package arena

import (
	"math"
	"sync"
	"sync/atomic"
)

// gate counts the calls inside an arena. Once it is shut, newcomers are refused instead of made to wait (a sync.RWMutex would
// deadlock a fill function that calls the arena while Close waits).
type gate struct {
	inside atomic.Int64 // plus math.MinInt64 when shut
	once   sync.Once
	empty  chan struct{}
}

func newGate() *gate { return &gate{empty: make(chan struct{})} }

// enter is false if the gate is shut; else leave must follow.
func (g *gate) enter() bool {
	if g.inside.Add(1) > 0 {
		return true
	}
	g.leave()
	return false
}

func (g *gate) leave() {
	if g.inside.Add(-1) == math.MinInt64 {
		g.once.Do(func() { close(g.empty) })
	}
}

// shut refuses newcomers and returns when all are out; it is called once.
func (g *gate) shut() {
	if g.inside.Add(math.MinInt64) != math.MinInt64 {
		<-g.empty
	}
}
