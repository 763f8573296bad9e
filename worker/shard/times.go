package shard

import (
	"maps"
	"slices"
	"sync/atomic"

	"github.com/moepool/moepool/transport"
)

// fewRows is the most rows per expert part of a request, on average, for which reading the weights takes longer than computing.
const fewRows = 4

// bandwidth adds up requests that memory bandwidth bounds.
type bandwidth struct{ bytes, spent atomic.Int64 }

// took notes a request with so many pairs of row and expert part.
func (h *Holder) took(l *layer, r *transport.Result, pairs int) {
	if l.held == nil {
		return // nothing of the layer is owned
	}
	l.held.count.Add(1)
	l.held.spent.Add(r.ComputeTime)
	h.count(l.held, r)
	if h.scratch.missing || len(r.Parts) == 0 || pairs > fewRows*len(r.Parts) {
		return
	}
	bytes := int64(0)
	for _, id := range r.Parts {
		bytes += int64(l.arenas[int(id)%len(l.arenas)].Geometry().SlotBytes)
	}
	h.bandwidth.bytes.Add(bytes)
	h.bandwidth.spent.Add(r.ComputeTime)
}

// Times gives how long each layer has taken, for layers that were computed.
func (h *Holder) Times() []transport.LayerTime {
	h.mu.Lock()
	defer h.mu.Unlock()
	var all []transport.LayerTime
	for _, number := range slices.Sorted(maps.Keys(h.layers)) {
		if l := h.layers[number]; l.count.Load() > 0 {
			all = append(all, transport.LayerTime{Layer: number, Count: l.count.Load(), Nanoseconds: l.spent.Load(),
				Hits: l.hits.Load(), Misses: l.misses.Load(), BytesRead: l.bytesRead.Load(), MajorFaults: l.majorFaults.Load()})
		}
	}
	return all
}

// Bandwidth gives the packed bytes of the expert parts that were computed in requests that memory bandwidth bounds (all parts resident, at
// most fewRows rows for each of them on average), and the nanoseconds that these took.
func (h *Holder) Bandwidth() (bytes, nanoseconds int64) {
	return h.bandwidth.bytes.Load(), h.bandwidth.spent.Load()
}
