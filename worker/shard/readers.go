package shard

import (
	"context"
	"sync"
)

// readersAtOnce is how many expert parts are read at a time: one reader leaves the disk idle while it enters pages into the page table and
// computes checksums.
const readersAtOnce = 4

// demand is the reading of one request's expert parts, in their order. Its goroutines inherit the process's memory policy, as all of its
// threads do, so the pages come to the worker's node; they end with the last read, or soon after stop.
type demand struct {
	h       *Holder
	layer   *layer
	parts   []uint32     // of the request
	arrived chan arrival // has room for all
	ended   sync.WaitGroup

	mu      sync.Mutex
	reads   []read // that have not begun
	stopped bool
}

// arrival is the end of a read.
type arrival struct {
	index int // into the request's parts
	err   error
}

// demand starts to read.
func (h *Holder) demand(l *layer, reads []read) *demand {
	d := &demand{h: h, layer: l, parts: h.scratch.parts, reads: reads, arrived: make(chan arrival, len(reads))}
	h.reading.begin()
	for range min(readersAtOnce, len(reads)) {
		d.ended.Go(d.run)
	}
	return d
}

// run is the life of a reader.
func (d *demand) run() {
	for {
		r, ok := d.next()
		if !ok {
			return
		}
		d.arrived <- arrival{r.index, d.h.fetch(d.layer, d.parts[r.index])}
	}
}

// next takes a read.
func (d *demand) next() (r read, ok bool) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.stopped || len(d.reads) == 0 {
		return read{}, false
	}
	r, d.reads = d.reads[0], d.reads[1:]
	return r, true
}

// stop lets no further read begin and waits for those in progress; it may be called twice, and on nil.
func (d *demand) stop() {
	if d == nil {
		return
	}
	d.mu.Lock()
	first := !d.stopped
	d.stopped = true
	d.mu.Unlock()
	d.ended.Wait()
	if first {
		d.h.reading.end()
	}
}

// fetch reads one expert part as a whole.
func (h *Holder) fetch(l *layer, id uint32) error {
	a, slot := l.slot(id)
	hit, err := a.Bring(slot)
	if err == nil && !hit {
		h.locate(l, id)
	}
	return err
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
