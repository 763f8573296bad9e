package residency

import "slices"

// lru evicts the part whose latest use is longest ago. Since a model visits its layers in turn, that is always one of the layer that comes next, so with less memory than a
// few tokens' experts nothing is left of a layer when it is visited again: it is here to be compared with.
type lru struct{}

func (lru) String() string { return "lru" }

func (lru) order(layers, parts int, _ *frequency) order {
	n := layers * parts
	o := &lruOrder{next: make([]int32, n+1), before: make([]int32, n+1), since: make([]uint64, n), layers: uint64(layers)}
	o.next[n], o.before[n] = int32(n), int32(n)
	return o
}

// lruOrder is a ring of slots through a head at the end of both slices: the head's next is the least recently used one. What comes in unasked is put there.
type lruOrder struct {
	next, before []int32
	since        []uint64 // slot → the visit of its latest use
	visits       uint64
	layers       uint64
}

func (o *lruOrder) visit(int, []uint32) { o.visits++ }

func (o *lruOrder) add(slot int32, wasUsed bool) {
	head := int32(len(o.next) - 1)
	at := head // before the head: the most recent one
	if wasUsed {
		o.since[slot] = o.visits
	} else {
		at = o.next[head]
	}
	o.next[slot], o.before[slot] = at, o.before[at]
	o.next[o.before[at]], o.before[at] = slot, slot
}

func (o *lruOrder) remove(slot int32) {
	o.next[o.before[slot]], o.before[o.next[slot]] = o.next[slot], o.before[slot]
}

func (o *lruOrder) coldest() int32 {
	head := int32(len(o.next) - 1)
	if o.next[head] == head {
		return -1
	}
	return o.next[head]
}

// cold: the layer of the part has been visited twice since then.
func (o *lruOrder) cold(slot int32) bool { return o.since[slot]+2*o.layers < o.visits }

func (o *lruOrder) seeded() {}

func (o *lruOrder) clone(*frequency) order {
	c := *o
	c.next, c.before, c.since = slices.Clone(o.next), slices.Clone(o.before), slices.Clone(o.since)
	return &c
}
