package shard

import (
	"context"
	"sync"
	"sync/atomic"
	"time"

	"github.com/moepool/moepool/residency"
	"github.com/moepool/moepool/transport"
)

// Prefetch says whether hints are followed: parts of a later layer are read while no request waits for the disk, if the ledger has room for
// them or something cold in their place. Without a ledger hints are not followed: the kernel doesn't say what it would evict for them.
type Prefetch string

// The values of Prefetch.
const (
	PrefetchAuto Prefetch = "auto" // while it pays; "" is the same
	PrefetchOn   Prefetch = "on"
	PrefetchOff  Prefetch = "off"
)

func (p Prefetch) auto() bool { return p != PrefetchOn && p != PrefetchOff }

// prefetchersAtOnce is how many hinted parts are read at a time. A read can't be called back: the fewer there are, the sooner a request has
// the disk for itself.
const prefetchersAtOnce = 1

// PrefetchCounters are what became of hints since the start, beside what the ledger counts.
type PrefetchCounters struct {
	Read   uint64 // expert parts that were read because of hints
	Late   uint64 // those that were still being read when they were asked for
	Failed uint64 // that could not be read
	Off    bool   // hints are not followed at present: there is no ledger, they were found not to pay, or it isn't wanted
}

// prefetcher follows the hints of a holder's works. Its goroutines begin with the first hint and end with close.
type prefetcher struct {
	h    *Holder
	stop context.CancelFunc // nil before the first hint
	done sync.WaitGroup

	mu      sync.Mutex
	wake    sync.Cond        // of mu
	pending []residency.Part // of the latest work, those that have not been looked at; a newer work's replace them
	held    bool             // its work has not begun to read
	busy    int              // parts that are being read
	closed  bool
	round   round
	payoff  payoff
	said    bool

	read, late, failed atomic.Uint64
}

// round is the one in progress.
type round struct {
	begun  time.Time // zero: none
	layer  int       // of its latest work
	rows   int       // of its first work
	hinted bool
	follow bool
}

// begin takes the hint of a work that is about to be computed. What is left of an earlier one is stale.
func (f *prefetcher) begin(w *transport.Work, now time.Time) {
	h := f.h
	if h.o.Prefetch == PrefetchOff || h.ledger == nil {
		return
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	f.pending, f.held = f.pending[:0], true
	if w.Layer <= f.round.layer || f.round.begun.IsZero() {
		f.turn(w, now)
	}
	f.round.layer = w.Layer
	if len(w.Hint.Parts) == 0 {
		return
	}
	f.round.hinted = true
	if !f.round.follow || f.closed {
		return
	}
	for _, id := range w.Hint.Parts {
		p := residency.Part{Layer: w.Hint.Layer, ID: id}
		if a, slot := h.slotOf(p); a != nil && a.Valid(slot) && a.InFile(slot) {
			f.pending = append(f.pending, p)
		}
	}
	if f.stop == nil && len(f.pending) > 0 {
		var running context.Context
		running, f.stop = context.WithCancel(context.Background())
		for range prefetchersAtOnce {
			f.done.Go(func() { f.run(running) })
		}
	}
}

// turn ends a round and begins the next one.
func (f *prefetcher) turn(w *transport.Work, now time.Time) {
	r, auto := &f.round, f.h.o.Prefetch.auto()
	if auto && r.hinted && f.payoff.round(r.rows, now.Sub(r.begun)) {
		f.tell()
	}
	*r = round{begun: now, layer: w.Layer, rows: w.Rows, follow: !auto || f.payoff.follow()}
}

// tell says once what the first trial has found, if hints don't pay.
func (f *prefetcher) tell() {
	v := f.payoff.last
	if v.Pays || f.said {
		return
	}
	f.said = true
	f.h.o.Log("prefetch doesn't pay here and is off: a step takes %s with it and %s without; it is tried again after %d steps (--prefetch on keeps it on)",
		v.With.Round(10*time.Microsecond), v.Without.Round(10*time.Microsecond), f.payoff.settled)
}

// release lets the hint of the work in progress be followed: the work's own reads have begun, or it has none.
func (f *prefetcher) release() {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.held = false
	if len(f.pending) > 0 {
		f.wake.Broadcast()
	}
}

// run is the life of a goroutine.
func (f *prefetcher) run(ctx context.Context) {
	for f.await() && f.h.reading.awaitIdle(ctx) == nil {
		if p, ok := f.next(); ok {
			f.follow(p)
			f.finished()
		}
	}
}

// await returns when something is pending; false: it is closed.
func (f *prefetcher) await() bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	for !f.closed && (f.held || len(f.pending) == 0) {
		f.wake.Wait()
	}
	return !f.closed
}

// next takes a part.
func (f *prefetcher) next() (p residency.Part, ok bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.held || len(f.pending) == 0 {
		return p, false
	}
	p, f.pending = f.pending[0], f.pending[1:]
	f.busy++
	return p, true
}

func (f *prefetcher) finished() {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.busy--
}

// follow reads a part if the ledger allows it. After an error whoever asks for the part finds out what is wrong with it.
func (f *prefetcher) follow(p residency.Part) {
	read, err := f.h.ahead(p, func(a *residency.Account) ([]residency.Part, bool) {
		if !a.Known(p) || a.Resident(p) {
			return nil, false
		}
		return a.Prefetch(p)
	})
	switch {
	case err != nil:
		f.failed.Add(1)
	case read:
		f.read.Add(1)
	}
}

// close ends the goroutines; hints are not followed any more.
func (f *prefetcher) close() {
	f.mu.Lock()
	f.closed = true
	if f.stop != nil {
		f.stop()
	}
	f.wake.Broadcast()
	f.mu.Unlock()
	f.done.Wait()
}

// Prefetched says what became of hints.
func (h *Holder) Prefetched() PrefetchCounters {
	f := &h.prefetcher
	n := PrefetchCounters{Read: f.read.Load(), Late: f.late.Load(), Failed: f.failed.Load(), Off: true}
	if h.accounts() == nil {
		return n
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	n.Off = h.o.Prefetch == PrefetchOff || h.o.Prefetch.auto() && f.payoff.resting
	return n
}
