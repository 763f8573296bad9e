package shard

import (
	"slices"

	"github.com/moepool/moepool/residency"
	"github.com/moepool/moepool/transport"
)

// read is an expert part that has to be read, after others have left.
type read struct {
	index    int  // into the request's parts
	from, to int  // of scratch.evicts: what has to be evicted before
	planned  bool // by the ledger; else the ledger has it in memory, or there is no ledger
}

// request accounts for the work whose parts are grouped: it sets the hits, the states and the planned reads. missed is the bytes of the
// misses, ghost what the ghost ledger had to read.
func (g *ledger) request(l *layer, w *transport.Work) (missed, ghost int64) {
	c := &g.h.scratch
	parts, filled := c.parts, w.Filled
	if l.memory() {
		c.filed, c.filedFilled = l.filed(c.filed[:0], parts), l.filed(c.filedFilled[:0], filled)
		parts, filled = c.filed, c.filedFilled
	}
	cut := g.h.known(w.Cut)
	g.mu.Lock()
	defer g.mu.Unlock()
	free := g.account.Limit() - g.account.Used()
	out, ghost := g.account.Work(l.number, parts, filled, cut)
	c.plan, c.evicts = c.plan[:0], c.evicts[:0]
	for _, wave := range out.Waves {
		free = c.planWave(g.account, l.number, wave, free)
		g.note(wave.Evict...)
	}
	for _, r := range c.plan {
		c.state[r.index], c.hit[r.index] = absent, false
	}
	if len(c.plan) > 0 {
		g.changes++
	}
	return out.MissBytes, ghost
}

// planWave appends a wave's reads, and gives what is free after them. Each read evicts what makes room for it, so that the first ones don't wait
// for all of a wave's evictions.
func (c *scratch) planWave(a *residency.Account, layer int, wave residency.Wave, free int64) int64 {
	evict := wave.Evict
	for n, id := range wave.Read {
		r := read{from: len(c.evicts), planned: true}
		r.index, _ = slices.BinarySearch(c.parts, id)
		free -= a.Bytes(residency.Part{Layer: layer, ID: id})
		for len(evict) > 0 && (free < 0 || n == len(wave.Read)-1) {
			c.evicts = append(c.evicts, evict[0])
			free += a.Bytes(evict[0])
			evict = evict[1:]
		}
		r.to = len(c.evicts)
		c.plan = append(c.plan, r)
	}
	return free
}

// toRead lists what has to be read: first what the ledger has in memory though it isn't there, which needs no room, then what is planned, in that
// order.
func (c *scratch) toRead() []read {
	c.reads = c.reads[:0]
	for i, st := range c.state {
		if st == absent && !slices.ContainsFunc(c.plan, func(r read) bool { return r.index == i }) {
			c.reads = append(c.reads, read{index: i})
		}
	}
	for _, r := range c.plan {
		if c.state[r.index] == absent {
			c.reads = append(c.reads, r)
		}
	}
	return c.reads
}

// abandon makes memory and ledger agree again after a request that failed: what was to be read and is not here leaves the ledger, and what
// was to leave leaves memory.
func (g *ledger) abandon(l *layer) {
	c := &g.h.scratch
	for _, r := range c.plan {
		if st := c.state[r.index]; st != here && st != computed {
			p := residency.Part{Layer: l.number, ID: c.parts[r.index]}
			g.remove(p)
			g.evict(p)
		}
	}
	for _, p := range c.evicts {
		g.evict(p)
	}
}

// memory says whether some slots of the layer may lie in anonymous memory.
func (l *layer) memory() bool {
	for _, a := range l.arenas {
		if a != nil && a.Anonymous() {
			return true
		}
	}
	return false
}

// filed appends the parts that lie in files.
func (l *layer) filed(dst, parts []uint32) []uint32 {
	for _, id := range parts {
		if a, slot := l.slot(id); a.InFile(slot) {
			dst = append(dst, id)
		}
	}
	return dst
}

// known gives the parts of a list that this holder has in files: a budget may name what has been given back since.
func (h *Holder) known(cut []transport.LayerParts) []residency.LayerParts {
	var all []residency.LayerParts
	for _, lp := range cut {
		some := residency.LayerParts{Layer: lp.Layer}
		for _, id := range lp.Parts {
			if a, slot := h.slotOf(residency.Part{Layer: lp.Layer, ID: id}); a != nil && a.InFile(slot) {
				some.Parts = append(some.Parts, id)
			}
		}
		if len(some.Parts) > 0 {
			all = append(all, some)
		}
	}
	return all
}
