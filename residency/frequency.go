package residency

import "slices"

const (
	// growth is how much more a use weighs than one at the layer's visit before: a weight halves in 64 visits.
	growth = 1.0108892860517005
	// seedVisits is how many visits a profile counts for.
	seedVisits = 32
	// usualStep is by how much the usual size of a request follows each request that is larger or smaller: it stays near their median.
	usualStep = 1.01
)

// frequency knows how often each part is used by the visits of its layer, recent ones counting more.
//
// A request of a prompt's chunk names most of a layer's parts, and says little about which of them the next tokens want. So a request that is larger than usual counts as
// much as a usual one, in equal shares for its parts: the parts that single tokens want stay the hottest.
//
// Only additions, multiplications and divisions of float64, each rounded on its own, so that all machines agree.
type frequency struct {
	parts   int
	count   []float64 // slot → sum of the weights of the visits that used it
	weight  []float64 // place of a layer → of its latest visit
	total   []float64 // place of a layer → sum of the weights of all visits
	usual   float64   // parts of a request, 0 before the first one
	unusual bool      // the latest visit was much larger or smaller than usual
}

func newFrequency(layers, parts int) *frequency {
	f := &frequency{parts: parts, count: make([]float64, layers*parts), weight: make([]float64, layers), total: make([]float64, layers)}
	for i := range f.weight {
		f.weight[i] = 1
	}
	return f
}

func (f *frequency) visit(place int, ids []uint32) {
	const large, scale = 0x1p400, 0x1p-400
	counts := f.count[place*f.parts : (place+1)*f.parts]
	f.weight[place] *= growth
	if f.weight[place] > large {
		f.weight[place] *= scale
		f.total[place] *= scale
		for i := range counts {
			counts[i] *= scale
		}
	}
	w := f.weight[place]
	f.total[place] += w
	w *= f.share(float64(len(ids)))
	for _, id := range ids {
		counts[id] += w
	}
}

// share is how much each part of a request of so many counts.
func (f *frequency) share(size float64) float64 {
	if f.usual == 0 {
		f.usual = min(size, float64(f.parts)/8) // the first request is often a prompt's
	}
	share := min(1, f.usual/size)
	f.unusual = f.usual > 2*size || size > 2*f.usual
	switch {
	case size > f.usual:
		f.usual = min(f.usual*usualStep, size)
	case size < f.usual:
		f.usual = max(f.usual/usualStep, size)
	}
	return share
}

// heat is the share of the layer's visits that used a part, 0 to 1.
func (f *frequency) heat(slot int32) float64 {
	if f.count[slot] == 0 {
		return 0
	}
	return f.count[slot] / f.total[int(slot)/f.parts]
}

func (f *frequency) clone() *frequency {
	c := *f
	c.count, c.weight, c.total = slices.Clone(f.count), slices.Clone(f.weight), slices.Clone(f.total)
	return &c
}

// Heat is how often a part was wanted.
type Heat struct {
	Part
	Heat float64 // share of the visits of its layer, recent ones counting more: 0 to 1
}

// Seed tells a ledger what was wanted in earlier runs. It counts as much as some tens of visits. Parts that are not the ledger's, and heats that are none, are ignored: a
// profile may be of another run.
func (l *Ledger) Seed(profile []Heat) {
	for place := range l.layers {
		l.history.total[place] += seedVisits * l.history.weight[place]
	}
	for _, h := range profile {
		if l.Known(h.Part) && h.Heat > 0 && h.Heat <= 1 {
			l.history.count[l.slot(h.Part)] += h.Heat * (seedVisits * l.history.weight[l.index[h.Layer]])
		}
	}
	l.order.seeded()
}
