package membership

import (
	"slices"

	"github.com/moepool/moepool/coordinator/router"
)

// observePairs counts the pairs of experts that rows chose together: the placement keeps them apart. A pair's place is that of a lower triangle without the
// diagonal. Choices of experts that don't exist are passed over.
func (r *routing) observePairs(layer int, choices []router.Choice) {
	r.mu.Lock()
	defer r.mu.Unlock()
	experts := len(r.layers[layer])
	if experts < 2 {
		return
	}
	pairs := r.pairs[layer]
	if pairs == nil {
		pairs = make([]float32, experts*(experts-1)/2)
		r.pairs[layer] = pairs
	}
	for i := range choices {
		row := choices[i].Experts // ascending
		for at, a := range row {
			if a < 0 || int(a) >= experts {
				break
			}
			for _, b := range row[:at] {
				if b < a && b >= 0 {
					pairs[pairPlace(int(a), int(b))]++
				}
			}
		}
	}
}

// pairPlace is the place of a pair, a being the higher number.
func pairPlace(a, b int) int { return a*(a-1)/2 + b }

// observed gives counts and pairs as placement.Options has them, of the layers that were observed; nil if none was.
func (r *routing) observed() (counts, pairs map[int][]float64) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for layer, n := range r.layers {
		if r.totals[layer] <= 0 {
			continue
		}
		if counts == nil {
			counts, pairs = map[int][]float64{}, map[int][]float64{}
		}
		counts[layer] = slices.Clone(n)
		if r.pairs[layer] == nil {
			continue
		}
		experts := len(n)
		all := make([]float64, experts*experts)
		for a := range experts {
			all[a*experts+a] = n[a]
			for b := range a {
				// A step whose pairs are counted and whose rows are not yet could make a pair more frequent than its experts.
				both := min(float64(r.pairs[layer][pairPlace(a, b)]), n[a], n[b])
				all[a*experts+b], all[b*experts+a] = both, both
			}
		}
		pairs[layer] = all
	}
	return counts, pairs
}
