package residency

import (
	"math"
	"slices"
)

// coldRate is below which probability of being used by its layer's next visit a part may make room for one that a hint names.
const coldRate = 0.25

// nextUse evicts the part whose next use is expected latest: what Belady's rule does with knowledge of the future, it does by an estimate of it. Layers are visited in turn. A
// part that a visit of its layer uses with probability p is expected to be used after the visits of other layers until its own comes, and 1/p − 1 rounds of all layers.
//
// p is the share of the layer's visits that used the part (the history), corrected by what the ledger has learned of parts that were used as often and as long ago: tokens
// often choose experts of the token before, by how much is a property of the model and the text.
type nextUse struct{}

func (nextUse) String() string { return "next-use" }

func (nextUse) order(layers, parts int, history *frequency) order {
	o := &nextUseOrder{heaps: newHeaps(layers, parts), history: history, rate: make([]float64, layers*parts), ago: make([]uint8, layers*parts),
		class: make([]uint8, layers*parts), wait: make([]float64, layers)}
	for i := range o.ago {
		o.ago[i] = longAgo
		o.class[i] = classOf(longAgo, 0)
	}
	for i := range o.wait {
		o.wait[i] = -1
	}
	return o
}

const (
	classes = 64     // of parts: 8 of how long ago they were used, times 8 of how often
	longAgo = 33     // visits, and more
	forget  = 0.9995 // what remains of a lesson after a visit
	doubt   = 64     // lessons of no surplus that each class has had before all others
	// leastRate bounds how long a part is expected to wait.
	leastRate = 0x1p-30
	// leastShare of the uncorrected rate is the least that a correction leaves.
	leastShare = 1. / 16
)

// agoClass are the classes of ago: 1, 2, 3, 4, 5–8, 9–16, 17–32 visits, and more.
var agoClass = [longAgo + 1]uint8{0, 0, 1, 2, 3, 4, 4, 4, 4, 5, 5, 5, 5, 5, 5, 5, 5, 6, 6, 6, 6, 6, 6, 6, 6, 6, 6, 6, 6, 6, 6, 6, 6, 7}

// classOf is the class of a part that was last used so many visits ago, and is used relative times as often as the mean part of its layer: below 1/2.8, in steps of about
// the square root of 2, up to more than 2.8.
func classOf(ago uint8, relative float64) uint8 {
	const first = (1023-2)<<1 + 1 // exponent and first bit of the mantissa of 0.375
	step := int(math.Float64bits(relative)>>51) - first + 1
	return agoClass[ago]*8 + uint8(min(max(step, 0), 7))
}

type nextUseOrder struct {
	heaps   // the scores are the probabilities p
	history *frequency
	rate    []float64 // slot → the history's heat since the latest visit of its layer
	ago     []uint8   // slot → visits since its latest use, up to longAgo
	class   []uint8   // slot → classOf

	surplus [classes]float64 // sum of (used or not) − rate of the parts that were in a class
	seen    [classes]float64 // number of them, both with recent ones counting more
	correct [classes]float64 // surplus / seen

	place int       // of the layer that is visited
	wait  []float64 // place of a layer → rounds until its coldest part is expected to be used; -1: it has no evictable part
}

func (o *nextUseOrder) visit(place int, ids []uint32) {
	o.place = place
	if !o.history.unusual {
		o.learn(place*o.parts, (place+1)*o.parts, ids)
	}
	o.judge(place)
}

// learn compares what a visit used with what was expected, and counts how long ago each part was used.
func (o *nextUseOrder) learn(first, end int, ids []uint32) {
	next := 0
	for slot := first; slot < end; slot++ {
		used, class := 0.0, o.class[slot]
		ago := min(o.ago[slot]+1, longAgo)
		if next < len(ids) && first+int(ids[next]) == slot {
			used, ago = 1, 1
			next++
		}
		o.surplus[class] += used - o.rate[slot]
		o.seen[class]++
		o.ago[slot] = ago
	}
	for class := range classes {
		o.surplus[class] *= forget
		o.seen[class] *= forget
		o.correct[class] = o.surplus[class] / (o.seen[class] + doubt)
	}
}

// judge takes the rates of a layer's parts from the history, and scores the parts.
func (o *nextUseOrder) judge(place int) {
	first, end := place*o.parts, (place+1)*o.parts
	sum := 0.0
	for slot := first; slot < end; slot++ {
		o.rate[slot] = o.history.heat(int32(slot))
		sum += o.rate[slot]
	}
	scale := 0.0
	if sum > 0 {
		scale = float64(o.parts) / sum
	}
	for slot := first; slot < end; slot++ {
		rate := o.rate[slot]
		o.class[slot] = classOf(o.ago[slot], rate*scale)
		o.score[slot] = max(rate+o.correct[o.class[slot]], rate*leastShare, leastRate)
	}
	o.rescored(place)
	o.waiting(place)
}

// waiting is called after each change of a layer's heap.
func (o *nextUseOrder) waiting(place int) {
	if heap := o.heap[place]; len(heap) > 0 {
		o.wait[place] = float64(len(o.heap)) / o.score[heap[0]]
	} else {
		o.wait[place] = -1
	}
}

func (o *nextUseOrder) add(slot int32, _ bool) {
	o.push(slot)
	o.waiting(int(slot) / o.parts)
}

func (o *nextUseOrder) remove(slot int32) {
	o.pull(slot)
	o.waiting(int(slot) / o.parts)
}

func (o *nextUseOrder) coldest() int32 {
	longest, at := -1.0, -1
	distance := 0.0 // visits until that of the layer
	for _, places := range [2][2]int{{o.place + 1, len(o.wait)}, {0, o.place + 1}} {
		for place := places[0]; place < places[1]; place++ {
			distance++
			if w := o.wait[place]; w >= 0 && w+distance > longest {
				longest, at = w+distance, place
			}
		}
	}
	if at < 0 {
		return -1
	}
	return o.heap[at][0]
}

func (o *nextUseOrder) cold(slot int32) bool { return o.score[slot] < coldRate }

func (o *nextUseOrder) seeded() {
	for place := range o.heap {
		o.judge(place)
	}
}

func (o *nextUseOrder) clone(history *frequency) order {
	c := *o
	c.heaps, c.history = o.heaps.clone(), history
	c.rate, c.ago, c.class, c.wait = slices.Clone(o.rate), slices.Clone(o.ago), slices.Clone(o.class), slices.Clone(o.wait)
	return &c
}
