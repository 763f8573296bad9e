package bench

import (
	"math/rand/v2"
	"slices"

	"github.com/moepool/moepool/kernels"
	"github.com/moepool/moepool/transport"
)

// work is a worker's work of random rows and random routing.
type work struct {
	transport.Work
	shape  LayerShape
	random *rand.Rand
	order  []uint32
}

// fill makes new rows.
func (w *work) fill(set *kernels.Set, rows int) error {
	hidden := w.shape.Hidden
	var a kernels.Activations
	a.Reset(w.shape.Format.Quantized(), rows, hidden)
	x := make([]float32, hidden)
	for row := range rows {
		for c := range x {
			x[c] = float32(w.random.NormFloat64())
		}
		if err := set.Prepare(&a, row, x); err != nil {
			return err
		}
	}
	w.Rows, w.Hidden, w.Quantized = rows, hidden, a.Quantized
	w.Values, w.Codes, w.Scales = a.Values, a.Codes, a.Scales
	return nil
}

// route chooses TopK of the experts for each row, each equally likely.
func (w *work) route(layer int) {
	w.begin(layer)
	for range w.Rows {
		for i := range w.shape.TopK {
			j := i + w.random.IntN(len(w.order)-i)
			w.order[i], w.order[j] = w.order[j], w.order[i]
		}
		w.choose(w.order[:w.shape.TopK])
	}
}

// routeAll sends each row to all experts.
func (w *work) routeAll(layer int) {
	w.begin(layer)
	for range w.Rows {
		w.choose(w.order)
	}
}

func (w *work) begin(layer int) {
	if w.order == nil {
		for e := range w.shape.Experts {
			w.order = append(w.order, uint32(e))
		}
	}
	w.Layer = layer
	w.Offsets, w.Parts, w.Weights = append(w.Offsets[:0], 0), w.Parts[:0], w.Weights[:0]
}

func (w *work) choose(experts []uint32) {
	first := len(w.Parts)
	w.Parts = append(w.Parts, experts...)
	slices.Sort(w.Parts[first:])
	for range experts {
		w.Weights = append(w.Weights, w.random.Float32()/float32(len(experts)))
	}
	w.Offsets = append(w.Offsets, uint32(len(w.Parts)))
}
