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
	c.planReads(g.account, l.number, out, free)
	g.note(c.evicts...)
	for _, r := range c.plan {
		c.state[r.index], c.hit[r.index] = absent, false
	}
	if len(c.plan) > 0 {
		g.changes++
	}
	return out.MissBytes, ghost
}

// planReads lists the reads of a request, of which free bytes have room. Each evicts what makes room for it, so that the first ones don't wait for
// all evictions of their wave; no read evicts what is computed only after it was read.
func (c *scratch) planReads(a *residency.Account, layer int, out residency.Outcome, free int64) {
	c.plan, c.evicts = c.plan[:0], c.evicts[:0]
	from := 0 // of evicts: those that no read has yet
	for _, wave := range out.Waves {
		evict := wave.Evict
		for n, id := range wave.Read {
			free -= a.Bytes(residency.Part{Layer: layer, ID: id})
			for len(evict) > 0 && (free < 0 || n == len(wave.Read)-1) {
				c.evicts = append(c.evicts, evict[0])
				free += a.Bytes(evict[0])
				evict = evict[1:]
			}
			if _, hit := slices.BinarySearch(out.Hits, id); hit {
				continue // it was to leave for others and come back; it stays, and is computed with the hits
			}
			index, _ := slices.BinarySearch(c.parts, id)
			c.plan = append(c.plan, read{index: index, from: from, to: len(c.evicts), planned: true})
			from = len(c.evicts)
		}
		for _, p := range evict { // of a wave that only makes room
			c.evicts = append(c.evicts, p)
			free += a.Bytes(p)
		}
	}
	c.evictLast = from
}

// evictLast evicts what no read waits for.
func (g *ledger) evictLast() {
	c := &g.h.scratch
	for _, p := range c.evicts[c.evictLast:] {
		g.evict(p)
	}
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
