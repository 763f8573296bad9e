package placement

import "slices"

// keepReplica is how much an expert's load counts more while it decides on copies that it has already: another expert's replica must be worth as much
// more to take their place.
const keepReplica = 1.25

// wantReplicas decides how many owners each expert of layer number i of the list shall have: again and again the expert whose owners have the highest
// load of it gets one more, while there is memory. had (may be nil) tells how many owners an expert has already.
func (l *layer) wantReplicas(i int, had func(e int) int) {
	most := min(l.p.options.Replicas, len(l.p.workers))
	if most < 2 {
		return
	}
	left, size := l.p.replicaBytes(i), l.p.expertBytes()
	weights := make([]float64, len(l.copies))
	weigh := func(e int) {
		weights[e] = l.weight(e)
		if had != nil && had(e) > l.copies[e] {
			weights[e] *= keepReplica
		}
	}
	for e := range weights {
		weigh(e)
	}
	defer func() { copy(l.wanted, l.copies) }()
	for ; left >= size; left -= size {
		hottest := -1
		for e, w := range weights {
			if l.copies[e] < most && (hottest < 0 || w > weights[hottest]) {
				hottest = e
			}
		}
		if hottest < 0 {
			return
		}
		l.copies[hottest]++ // nothing is placed yet, or what is gets its loads anew by setCopies
		weigh(hottest)
	}
}

// replicaBytes is the memory for replicas of layer number i of the list.
func (p *planner) replicaBytes(i int) int64 {
	budget := p.options.ReplicaBytes
	if budget == 0 {
		budget = unlimited
	}
	spare := -p.expertBytes() * int64(p.model.Experts) * int64(len(p.layers))
	for _, c := range p.capacity {
		if spare += c; c == unlimited {
			spare = unlimited
			break
		}
	}
	budget, n := max(0, min(budget, spare)), int64(len(p.layers))
	// Shares are cut at multiples of an expert, so that rounding loses nothing.
	size := max(1, p.expertBytes())
	return (budget/size*int64(i+1)/n - budget/size*int64(i)/n) * size
}

// expertBytes is the packed size of an expert.
func (p *planner) expertBytes() (total int64) {
	for _, b := range p.model.PartBytes {
		total += b
	}
	return total
}

// addReplicas places the copies that experts lack: first within a share of the spare memory for each layer, then wherever there is some. What
// finds no place is left out.
func (p *planner) addReplicas() {
	if p.options.Replicas < 2 {
		return
	}
	base := slices.Clone(p.used)
	limit := make([]int64, len(base))
	for _, all := range []bool{false, true} {
		for i, l := range p.layers {
			for w := range limit {
				limit[w] = p.capacity[w]
				if !all && p.capacity[w] != unlimited {
					limit[w] = base[w] + (p.capacity[w]-base[w])/int64(len(p.layers))*int64(i+1)
				}
			}
			l.addReplicas(limit)
		}
	}
	for _, l := range p.layers {
		for e := range l.copies {
			n := len(p.workers)
			for item := e * p.model.Parts; item < (e+1)*p.model.Parts; item++ {
				n = min(n, len(l.owners[item]))
			}
			l.setCopies(e, n)
		}
	}
}

func (l *layer) addReplicas(limit []int64) {
	experts := l.byWeight()
	for copy := 1; copy < l.p.options.Replicas; copy++ {
		for _, e := range experts {
			if l.wanted[e] > copy && len(l.missing(e, copy)) > 0 {
				l.seat(e, copy, limit)
			}
		}
	}
}
