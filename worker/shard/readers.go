package shard

import (
	"context"
	"slices"
	"sync"
	"sync/atomic"

	"github.com/moepool/moepool/residency"
)

// readersAtOnce is how many expert parts are read at a time: one reader leaves the disk idle while it enters pages into the page table,
// evicts and computes checksums. BenchmarkComputeMissing compares.
const readersAtOnce = 4

// demand is the reading of one request's expert parts, in their order. Its goroutines inherit the process's memory policy, as all of its
// threads do, so the pages come to the worker's node; they end with the last read, or soon after stop.
type demand struct {
	h       *Holder
	layer   *layer
	parts   []uint32         // of the request
	evicts  []residency.Part // of the reads
	arrived chan arrival     // has room for all
	ended   sync.WaitGroup
	readers atomic.Int32 // that have not ended

	mu       sync.Mutex
	reads    []read // that have not begun
	states   []partState
	progress chan struct{} // closed when more is computed or no more is to be read; nil if nobody waits for it
	stopped  bool
}

// arrival is the end of a read.
type arrival struct {
	index int // into the request's parts
	err   error
}

// demand starts to read what is listed; what is computed until then is in the states of the scratch.
func (h *Holder) demand(l *layer, reads []read) *demand {
	c := &h.scratch
	d := &demand{h: h, layer: l, parts: c.parts, evicts: c.evicts, reads: reads, arrived: make(chan arrival, len(reads)), states: slices.Clone(c.state)}
	h.reading.begin()
	h.prefetcher.release()
	d.readers.Store(int32(min(h.limits.readers, len(reads))))
	for range d.readers.Load() {
		d.ended.Go(d.run)
	}
	return d
}

// run is the life of a reader. With the last one's end the disk is free, though what was read is still to be computed.
func (d *demand) run() {
	defer func() {
		if d.readers.Add(-1) == 0 {
			d.h.reading.end()
		}
	}()
	for {
		r, wait := d.next()
		switch {
		case wait != nil:
			<-wait
		case r == nil:
			return
		default:
			d.arrived <- arrival{r.index, d.read(r)}
		}
	}
}

// next takes a read; nil if there is none any more, or none before wait is closed.
func (d *demand) next() (r *read, wait <-chan struct{}) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.stopped || len(d.reads) == 0 {
		return nil, nil
	}
	r = &d.reads[0]
	for _, p := range d.evicts[r.from:r.to] {
		if d.uses(p) {
			if d.progress == nil {
				d.progress = make(chan struct{})
			}
			return nil, d.progress
		}
	}
	d.reads = d.reads[1:]
	return r, nil
}

// uses says whether a part is one of the request that is not computed yet; callers hold mu.
func (d *demand) uses(p residency.Part) bool {
	if p.Layer != d.layer.number {
		return false
	}
	i, asked := slices.BinarySearch(d.parts, p.ID)
	return asked && d.states[i] != computed
}

// read evicts and reads.
func (d *demand) read(r *read) error {
	for _, p := range d.evicts[r.from:r.to] {
		d.h.ledger.evict(p)
	}
	hit, err := d.h.fetch(residency.Part{Layer: d.layer.number, ID: d.parts[r.index]})
	if !r.planned && err == nil && d.h.ledger != nil {
		if hit {
			d.h.prefetcher.late.Add(1) // a hint's read was still under way
		} else {
			d.h.ledger.reclaimed.Add(1)
		}
	}
	return err
}

// note says what is computed now.
func (d *demand) note(states []partState) {
	d.mu.Lock()
	defer d.mu.Unlock()
	copy(d.states, states)
	d.move()
}

// move lets those go on that wait; callers hold mu.
func (d *demand) move() {
	if d.progress != nil {
		close(d.progress)
		d.progress = nil
	}
}

// stop lets no further read begin and waits for those in progress; it may be called twice, and on nil.
func (d *demand) stop() {
	if d == nil {
		return
	}
	d.mu.Lock()
	d.stopped = true
	d.move()
	d.mu.Unlock()
	d.ended.Wait()
}

// fetch reads one expert part that is held as a whole. hit: it was in memory.
func (h *Holder) fetch(p residency.Part) (hit bool, err error) {
	lock := h.lockOf(p)
	lock.Lock()
	defer lock.Unlock()
	a, slot := h.slotOf(p)
	hit, err = a.Bring(slot)
	if err == nil && !hit {
		h.locate(p)
	}
	return hit, err
}

// reading says whether a request waits for the disk, so that what nobody waits for can keep away from it.
type reading struct {
	mu     sync.Mutex
	demand int           // requests that wait for reads
	idle   chan struct{} // closed when there are none; nil unless someone waits for that
}

func (r *reading) begin() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.demand++
}

func (r *reading) end() {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.demand--; r.demand == 0 && r.idle != nil {
		close(r.idle)
		r.idle = nil
	}
}

// awaitIdle returns when no request waits for the disk, or with ctx's error.
func (r *reading) awaitIdle(ctx context.Context) error {
	for {
		r.mu.Lock()
		if r.demand == 0 {
			r.mu.Unlock()
			return ctx.Err()
		}
		if r.idle == nil {
			r.idle = make(chan struct{})
		}
		idle := r.idle
		r.mu.Unlock()
		select {
		case <-idle:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}
