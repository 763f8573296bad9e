package residency

import (
	"cmp"
	"slices"
)

// growth is how much more a use weighs than one at the layer's visit before: a weight halves in 64 visits.
const growth = 1.0108892860517005

// seedVisits is how many visits a profile counts for.
const seedVisits = 32

// frequency knows how often each part is used by the visits of its layer, recent ones counting more. Only multiplications, additions and divisions of float64, each rounded on
// its own, so that all machines agree.
type frequency struct {
	parts  int
	count  []float64 // slot → sum of the weights of the visits that used it
	weight []float64 // place of a layer → of its latest visit
	total  []float64 // place of a layer → sum of the weights of all visits
}

func newFrequency(layers, parts int) frequency {
	f := frequency{parts: parts, count: make([]float64, layers*parts), weight: make([]float64, layers), total: make([]float64, layers)}
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
	for _, id := range ids {
		counts[id] += w
	}
}

// heat is the share of the layer's visits that used a part, 0 to 1.
func (f *frequency) heat(slot int32) float64 {
	if f.count[slot] == 0 {
		return 0
	}
	return f.count[slot] / f.total[int(slot)/f.parts]
}

func (f *frequency) clone() frequency {
	return frequency{parts: f.parts, count: slices.Clone(f.count), weight: slices.Clone(f.weight), total: slices.Clone(f.total)}
}

// Heat is how often a part was wanted.
type Heat struct {
	Part
	Heat float64 // share of the visits of its layer, recent ones counting more: 0 to 1
}

// HottestFirst are all parts that have been wanted, in descending order of heat; of equal ones the lower layer and id first. It is the profile that Seed takes.
func (l *Ledger) HottestFirst() []Heat {
	var all []Heat
	for slot := range l.history.count {
		if h := l.history.heat(int32(slot)); h > 0 {
			all = append(all, Heat{Part: l.part(int32(slot)), Heat: h})
		}
	}
	slices.SortStableFunc(all, func(a, b Heat) int { return cmp.Compare(b.Heat, a.Heat) })
	return all
}

// Seed tells a new ledger what was wanted in earlier runs. It counts as much as some tens of visits. Parts that are not the ledger's, and heats that are none, are ignored:
// a profile may be of another run.
func (l *Ledger) Seed(profile []Heat) {
	for place := range l.layers {
		l.history.total[place] += seedVisits
	}
	for _, h := range profile {
		if l.Known(h.Part) && h.Heat > 0 && h.Heat <= 1 {
			l.history.count[l.slot(h.Part)] += h.Heat * seedVisits
		}
	}
}
