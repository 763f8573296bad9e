package shard

import (
	"math/bits"

	"github.com/moepool/moepool/numa/hostinfo"
	"github.com/moepool/moepool/transport"
)

// reads is what the process had read when the last result was made; under Holder.computing.
type reads struct {
	last hostinfo.Reads
}

// measure sets what a result's process has read from block devices and its major faults, since the result before: with what was read ahead in
// between. One system call of about a microsecond.
func (h *Holder) measure(r *transport.Result) {
	now, err := hostinfo.ReadsOfThisProcess()
	if err != nil {
		r.BytesRead = r.MissBytes
		return
	}
	since := now.Since(h.reads.last)
	r.BytesRead, r.MajorFaults = since.Bytes, since.MajorFaults
	h.reads.last = now
}

// forgetReads lets results begin to count here: what loading and warming read is not theirs.
func (h *Holder) forgetReads() {
	h.computing.Lock()
	defer h.computing.Unlock()
	if now, err := hostinfo.ReadsOfThisProcess(); err == nil {
		h.reads.last = now
	}
}

// count adds a result to its layer's counters.
func (h *Holder) count(l *heldLayer, r *transport.Result) {
	hits := 0
	for _, b := range r.Hits {
		hits += bits.OnesCount8(b)
	}
	l.hits.Add(uint64(hits))
	if misses := len(r.Parts) - hits; misses > 0 {
		l.misses.Add(uint64(misses))
		l.missBytes.Add(r.MissBytes)
	}
	if r.BytesRead > 0 {
		l.bytesRead.Add(r.BytesRead)
	}
	if r.MajorFaults > 0 {
		l.majorFaults.Add(uint64(r.MajorFaults))
	}
}

// Residency gives the limit, the eviction policy and the counters since the start; what it says of warming, hints and locked memory is others'.
// Resident is the ledger's; without one, what the last call of Resident found.
func (h *Holder) Residency() transport.ResidencyReport {
	r := transport.ResidencyReport{GhostBytes: -1}
	h.mu.Lock()
	g := h.ledger
	for _, l := range h.layers {
		r.Hits += l.hits.Load()
		r.Misses += l.misses.Load()
		r.MissBytes += l.missBytes.Load()
		r.BytesRead += l.bytesRead.Load()
		r.MajorFaults += l.majorFaults.Load()
	}
	h.mu.Unlock()
	p := h.Prefetched()
	r.PrefetchLate, r.PrefetchOff = p.Late, p.Off
	if g == nil {
		r.Resident = h.resident.Load()
		return r
	}
	r.Reclaimed = g.reclaimed.Load()
	g.mu.Lock()
	defer g.mu.Unlock()
	t := g.account.Totals()
	r.Limit, r.Eviction, r.Resident = g.account.Limit(), g.account.Policy().String(), g.account.Used()
	r.Hits, r.Misses, r.MissBytes, r.GhostBytes = t.Hits, t.Misses, t.MissBytes, t.GhostBytes
	r.Evictions, r.Prefetched, r.PrefetchUsed = t.Evictions, t.Prefetched, t.PrefetchUsed
	return r
}

// ResidencyVersion changes whenever what the ledger has does; it stays 0 without a ledger.
func (h *Holder) ResidencyVersion() uint64 {
	g := h.accounts()
	if g == nil {
		return 0
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.changes
}
