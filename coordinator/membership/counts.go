package membership

import (
	"slices"
	"sync"

	"github.com/moepool/moepool/coordinator/placement"
)

// windowRows is how many rows an expert gets on average before older observations lose half of their weight.
const windowRows = 2048

// routing counts how many rows were routed to each expert. When a layer's total reaches its window all its counts are halved, so that what is
// long ago fades; nothing grows.
type routing struct {
	mu     sync.Mutex
	pairs  map[int][]float32 // layer → [pair] of two experts, see pairs.go
	layers map[int][]float64
	totals map[int]float64
	window float64
}

func newRouting(m placement.Model) *routing {
	r := &routing{pairs: map[int][]float32{}, layers: map[int][]float64{}, totals: map[int]float64{}, window: windowRows * float64(m.Experts)}
	for _, layer := range m.Layers {
		r.layers[layer] = make([]float64, m.Experts)
	}
	return r
}

// observe adds the rows of one step; layers that don't exist and other numbers of experts are passed over.
func (r *routing) observe(layer int, rows []uint32) {
	r.mu.Lock()
	defer r.mu.Unlock()
	counts := r.layers[layer]
	if len(counts) != len(rows) {
		return
	}
	total := r.totals[layer]
	for expert, n := range rows {
		counts[expert] += float64(n)
		total += float64(n)
	}
	for total >= r.window {
		total = 0
		for expert := range counts {
			counts[expert] /= 2
			total += counts[expert]
		}
		for i := range r.pairs[layer] {
			r.pairs[layer][i] /= 2
		}
	}
	r.totals[layer] = total
}

// snapshot gives the counts of the layers that were observed; nil if none was.
func (r *routing) snapshot() map[int][]float64 {
	r.mu.Lock()
	defer r.mu.Unlock()
	var all map[int][]float64
	for layer, counts := range r.layers {
		if r.totals[layer] > 0 {
			if all == nil {
				all = map[int][]float64{}
			}
			all[layer] = slices.Clone(counts)
		}
	}
	return all
}
