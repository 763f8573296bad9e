package residency

import "slices"

// Wave is one step of a request: when all of Evict are out, all of Read fit.
type Wave struct {
	Evict []Part
	Read  []uint32 // parts of the request's layer, ascending
}

// Outcome is what must be done for a request: compute Hits, and for each wave in order evict, read and compute. It is valid until the ledger's next call.
//
// Nothing but parts outside the request is evicted by the first wave, which reads nothing if hits have to make room. A later one may evict hits, and parts of waves before
// it, which must have been computed by then; waves may overlap as far as that allows. A request that fits the limit has one wave.
type Outcome struct {
	Hits      []uint32 // parts that are resident, ascending
	Waves     []Wave
	MissBytes int64 // of all Read
}

// hintLife is for how many requests a part that a hint brought in is kept if the request that it was for does not come.
const hintLife = 4

// Request accounts for one request of a layer: ids are the parts that it computes, ascending and distinct.
func (l *Ledger) Request(layer int, ids []uint32) Outcome {
	base := l.slot(Part{Layer: layer})
	l.settle()
	l.request++
	l.counters.Requests++
	place := int(base) / l.parts
	if len(ids) > 0 {
		l.history.visit(place, ids)
		l.order.visit(place, ids)
	}

	out := &l.outcome
	out.Hits, out.Waves, out.MissBytes = out.Hits[:0], out.Waves[:0], 0
	l.evicts, l.reads, l.computed = l.evicts[:0], l.reads[:0], l.computed[:0]
	l.missing = l.missing[:0]
	var wanted, missing int64
	for _, id := range ids {
		slot := l.slot(Part{Layer: layer, ID: id})
		wanted += l.sizes[slot]
		switch l.states[slot] {
		case absent:
			missing += l.sizes[slot]
			l.missing = append(l.missing, id)
			continue
		case evictable:
			l.order.remove(slot)
		}
		if l.hintOf[slot] {
			l.hintOf[slot] = false
			l.counters.PrefetchUsed++
		}
		l.states[slot] = used
		l.computed = append(l.computed, slot)
		out.Hits = append(out.Hits, id)
	}
	l.hinted = slices.DeleteFunc(l.hinted, func(h hint) bool { return l.states[h.slot] != prefetched })
	l.counters.Hits += uint64(len(out.Hits))
	l.counters.Misses += uint64(len(l.missing))
	l.counters.MissBytes += missing
	out.MissBytes = missing
	if missing > 0 {
		l.read(base, l.waveBytes(wanted))
	}
	for _, slot := range l.computed {
		if l.states[slot] == used {
			l.current = append(l.current, slot)
		}
	}
	return *out
}

// waveBytes is the most that one wave of a request reads: all of it if the request fits, else a quarter of the limit, so that reading, computing and evicting overlap.
func (l *Ledger) waveBytes(wanted int64) int64 {
	if wanted <= l.limit {
		return l.limit
	}
	return l.limit / 4
}

// read makes the waves of a request whose hits are in computed, and its misses in missing.
func (l *Ledger) read(base int32, waveBytes int64) {
	released := 0 // so many of computed have become evictable
	firstRead, firstEvict := 0, 0
	var bytes int64 // of the wave
	flush := func() {
		l.outcome.Waves = append(l.outcome.Waves, Wave{Evict: l.evicts[firstEvict:len(l.evicts):len(l.evicts)], Read: l.reads[firstRead:len(l.reads):len(l.reads)]})
		firstRead, firstEvict, bytes = len(l.reads), len(l.evicts), 0
	}
	for _, id := range l.missing {
		slot := base + int32(id)
		if bytes > 0 && bytes+l.sizes[slot] > waveBytes {
			flush()
		}
		for l.used+l.sizes[slot] > l.limit {
			victim := l.order.coldest()
			if victim >= 0 {
				l.evict(victim)
				l.order.remove(victim)
				continue
			}
			if len(l.hinted) > 0 {
				l.evict(l.hinted[0].slot)
				l.hinted = slices.Delete(l.hinted, 0, 1)
				continue
			}
			// Only parts of this request are left: those that were computed first become evictable, for a wave after the one that computed them; hits, for any but the first.
			if len(l.outcome.Waves) == 0 || released == len(l.computed)-(len(l.reads)-firstRead) {
				flush()
			}
			l.release(l.computed[released])
			released++
		}
		l.used += l.sizes[slot]
		l.states[slot] = used
		l.reads = append(l.reads, id)
		l.computed = append(l.computed, slot)
		bytes += l.sizes[slot]
	}
	flush()
}

func (l *Ledger) evict(slot int32) {
	l.evicts = append(l.evicts, l.part(slot))
	l.leave(slot)
	l.counters.Evictions++
}

func (l *Ledger) release(slot int32) {
	if l.states[slot] == used {
		l.states[slot] = evictable
		l.order.add(slot, true)
	}
}

// settle lets go of what the request before has used, and of hints whose request did not come.
func (l *Ledger) settle() {
	for _, slot := range l.current {
		l.release(slot)
	}
	l.current = l.current[:0]
	l.hinted = slices.DeleteFunc(l.hinted, func(h hint) bool {
		if h.request+hintLife > l.request {
			return false
		}
		l.states[h.slot] = evictable
		l.order.add(h.slot, false)
		return true
	})
}

// Prefetch asks whether a part that a hint names may be brought in, and what must be evicted for it. It comes in only if there is room, or in place of parts that are
// cold by the policy; never in place of parts of the latest request or of other hints. The answer is valid until the ledger's next call; ok is false, too, if the part is
// resident.
func (l *Ledger) Prefetch(p Part) (evict []Part, ok bool) {
	slot := l.slot(p)
	if l.states[slot] != absent {
		return nil, false
	}
	l.evicts = l.evicts[:0]
	victims := l.computed[:0] // memory that only a request uses
	room := l.limit - l.used
	for room < l.sizes[slot] {
		victim := l.order.coldest()
		if victim < 0 || !l.order.cold(victim) {
			break
		}
		l.order.remove(victim)
		victims = append(victims, victim)
		room += l.sizes[victim]
	}
	l.computed = victims[:0]
	if room < l.sizes[slot] {
		for i := len(victims) - 1; i >= 0; i-- {
			l.order.add(victims[i], false)
		}
		return nil, false
	}
	for _, victim := range victims {
		l.evict(victim)
	}
	l.used += l.sizes[slot]
	l.states[slot], l.hintOf[slot] = prefetched, true
	l.hinted = append(l.hinted, hint{slot: slot, request: l.request})
	l.counters.Prefetched++
	l.counters.HintBytes += l.sizes[slot]
	return l.evicts, true
}
