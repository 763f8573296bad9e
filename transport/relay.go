package transport

import "sync/atomic"

// relay lets two goroutines take turns at receiving. The one that receives a Work computes it itself and nobody is woken for that; only if
// the computing lasts does the other one go on receiving meanwhile, until it computes, too.
type relay struct {
	away   atomic.Bool   // the one whose turn it is computes
	relief chan struct{} // has room for one: the turn
}

func newRelay() *relay {
	r := &relay{relief: make(chan struct{}, 1)}
	r.relief <- struct{}{}
	return r
}

// leave says that the caller, whose turn it is, computes.
func (r *relay) leave() { r.away.Store(true) }

// back says whether it is still the caller's turn after leave; else it has to wait for relief.
func (r *relay) back() bool { return r.away.CompareAndSwap(true, false) }

// relieve gives the turn to the other one if the first is away.
func (r *relay) relieve() {
	if r.away.CompareAndSwap(true, false) {
		r.relief <- struct{}{}
	}
}
