package main

import "github.com/moepool/moepool/coordinator/engine"

// prefetchReport says how good the predictions of experts were; what became of them is in the workers' residency.
type prefetchReport struct {
	Recall float64                `json:"recall"` // share of the combine weight of the experts that were chosen that had been predicted
	Rows   int64                  `json:"rows"`   // predictions of one row's experts in one layer
	Layers []prefetchLayersReport `json:"layers"`
}

type prefetchLayersReport struct {
	Layer  int     `json:"layer"`
	Rows   int64   `json:"rows"`
	Recall float64 `json:"recall"`
}

// newPrefetchReport describes predictions; nil if there were none.
func newPrefetchReport(layers []engine.LayerPrediction) *prefetchReport {
	r := &prefetchReport{}
	var mass, recalled float64
	for _, p := range layers {
		if !(p.Mass > 0) {
			continue
		}
		r.Rows += p.Rows
		r.Layers = append(r.Layers, prefetchLayersReport{p.Layer, p.Rows, p.Recalled / p.Mass})
		mass, recalled = mass+p.Mass, recalled+p.Recalled
	}
	if r.Layers == nil {
		return nil
	}
	r.Recall = recalled / mass
	return r
}
