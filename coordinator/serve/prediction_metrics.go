package serve

import (
	"strconv"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/moepool/moepool/coordinator/engine"
)

// describePredictions describes how good predictions of a layer's experts are: the quotient of the last two is the recall by gate mass.
func describePredictions(describe func(name, help string, labels ...string)) {
	describe("prediction_rows_total", "Rows whose experts in a layer were predicted a layer before.", "layer")
	describe("prediction_mass_total", "Combine weight of the experts that the router chose for these rows.", "layer")
	describe("prediction_recalled_mass_total", "Of this, that of experts that had been predicted.", "layer")
}

func collectPredictions(emit func(name string, kind prometheus.ValueType, value float64, labels ...string), layers []engine.LayerPrediction) {
	for _, p := range layers {
		layer := strconv.Itoa(p.Layer)
		emit("prediction_rows_total", prometheus.CounterValue, float64(p.Rows), layer)
		emit("prediction_mass_total", prometheus.CounterValue, p.Mass, layer)
		emit("prediction_recalled_mass_total", prometheus.CounterValue, p.Recalled, layer)
	}
}
