package budget

import (
	"slices"

	"pgregory.net/rapid"

	"github.com/moepool/moepool/coordinator/router"

	_ "github.com/moepool/moepool/internal/propertyseed"
)

// batch is a layer's rows.
type batch struct {
	rows       []router.Choice
	phases     []Phase
	candidates []router.Choice
	resident   map[int32]bool
	missing    map[int32][]int64 // bytes that each worker would read of an expert
	normalize  bool
}

// apply decides with a Cutter of its own; the batch stays as it is.
func (b *batch) apply(p Policy) ([]router.Choice, Report) {
	rows := clone(b.rows)
	var c Cutter
	return rows, c.Apply(p, b.of(rows))
}

func (b *batch) of(rows []router.Choice) *Batch {
	return &Batch{
		Rows: rows, Phases: b.phases, Candidates: b.candidates, Normalize: b.normalize,
		Resident: func(id int32) bool { return b.resident[id] },
		Missing: func(id int32, part func(worker int, bytes int64)) {
			for worker, bytes := range b.missing[id] {
				if bytes > 0 {
					part(worker, bytes)
				}
			}
		},
	}
}

const drawnExperts = 12

func drawBatch(t *rapid.T) *batch {
	b := &batch{resident: map[int32]bool{}, missing: map[int32][]int64{}, normalize: rapid.Bool().Draw(t, "normalize")}
	for _, id := range rapid.SliceOf(rapid.Int32Range(0, drawnExperts-1)).Draw(t, "resident") {
		b.resident[id] = true
	}
	for id := range int32(drawnExperts) {
		if !b.resident[id] {
			b.missing[id] = rapid.SliceOfN(rapid.Int64Range(0, 3), 3, 3).Draw(t, "missing")
		}
	}
	for range rapid.IntRange(0, 6).Draw(t, "rows") {
		// Multiples of 1/64: sums are exact, so that ties are common and slow versions may add in any order.
		weights := make([]float32, drawnExperts)
		for i := range weights {
			weights[i] = float32(rapid.IntRange(1, 16).Draw(t, "weight")) / 64
		}
		// The row's own are the first ones of its best.
		var all router.Choice
		router.Candidates(&all, weights, drawnExperts, 1)
		k := rapid.IntRange(0, 4).Draw(t, "k")
		row := router.Choice{Experts: slices.Clone(all.Experts[:k]), Weights: slices.Clone(all.Weights[:k])}
		row.SortByID()
		m := rapid.IntRange(k, drawnExperts).Draw(t, "candidates")
		b.rows, b.phases = append(b.rows, row), append(b.phases, Phase(rapid.IntRange(0, 2).Draw(t, "phase")))
		b.candidates = append(b.candidates, router.Choice{Experts: all.Experts[:m], Weights: all.Weights[:m]})
	}
	return b
}

// drawPolicy has any of the rules.
func drawPolicy(t *rapid.T) Policy {
	p := Policy{Prefill: rapid.Bool().Draw(t, "prefill"), Rescue: rapid.Bool().Draw(t, "rescue")}
	rule := func(name string) bool { return rapid.IntRange(0, 2).Draw(t, name) == 0 }
	if rule("has count") {
		p.Count = rapid.IntRange(1, 8).Draw(t, "count")
	}
	if rule("has bytes") {
		p.Bytes = rapid.Int64Range(1, 8).Draw(t, "bytes")
	}
	if rule("has mass") {
		p.Mass = float64(rapid.IntRange(1, 7).Draw(t, "mass")) / 8
	}
	if rule("has topp") {
		p.TopP = float64(rapid.IntRange(1, 7).Draw(t, "topp")) / 8
	}
	if rule("has fill") {
		p.Fill = drawnExperts
	}
	p.Unscaled = rule("is unscaled")
	return p
}

func clone(rows []router.Choice) []router.Choice {
	out := make([]router.Choice, len(rows))
	for i, row := range rows {
		out[i] = router.Choice{Experts: slices.Clone(row.Experts), Weights: slices.Clone(row.Weights)}
	}
	return out
}
