package residency

// lfu evicts the part that the fewest visits of its layer used, recent ones counting more: a use's weight halves in 64 visits.
type lfu struct{}

func (lfu) String() string { return "lfu" }

func (lfu) order(layers, parts int, history *frequency) order {
	return &lfuOrder{heaps: newHeaps(layers, parts), history: history}
}

// lfuOrder: the scores are the history's heats, which change only when their layer is visited.
type lfuOrder struct {
	heaps
	history *frequency
}

func (o *lfuOrder) visit(place int, _ []uint32) {
	for slot := place * o.parts; slot < (place+1)*o.parts; slot++ {
		o.score[slot] = o.history.heat(int32(slot))
	}
	o.rescored(place)
}

func (o *lfuOrder) add(slot int32, _ bool) { o.push(slot) }
func (o *lfuOrder) remove(slot int32)      { o.pull(slot) }

func (o *lfuOrder) coldest() int32 {
	coldest := int32(-1)
	for _, heap := range o.heap {
		if len(heap) > 0 && (coldest < 0 || o.less(heap[0], coldest)) {
			coldest = heap[0]
		}
	}
	return coldest
}

func (o *lfuOrder) cold(slot int32) bool { return o.score[slot] < coldRate }

func (o *lfuOrder) seeded() {
	for place := range o.heap {
		o.visit(place, nil)
	}
}

func (o *lfuOrder) clone(history *frequency) order {
	return &lfuOrder{heaps: o.heaps.clone(), history: history}
}
