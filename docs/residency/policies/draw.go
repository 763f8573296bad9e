package main

import (
	"math"
	"math/rand/v2"
	"slices"

	"github.com/moepool/moepool/coordinator/placement/comparison"
)

// drawing is a routing by Zipf's law whose hot experts drift: 8 of 128 experts, 12 layers, 2048 tokens.
type drawing struct {
	exponent float64
	swaps    int     // pairs of experts that change their ranks each 256 tokens
	repeat   float64 // probability that an expert of the token before is taken again, whatever its rank
}

func (d drawing) trace() *comparison.Trace {
	const layers, experts, topK, tokens = 12, 128, 8, 2048
	r := rand.New(rand.NewPCG(7, 7))
	t := &comparison.Trace{Experts: experts, TopK: topK}
	for range layers {
		ranks, weights := r.Perm(experts), make([]float64, experts)
		var rows, last []uint16
		for token := range tokens {
			if token%window == 0 {
				for range d.swaps {
					i, j := r.IntN(experts), r.IntN(experts)
					ranks[i], ranks[j] = ranks[j], ranks[i]
				}
				for expert, rank := range ranks {
					weights[expert] = math.Pow(float64(rank+1), -d.exponent)
				}
			}
			var row []uint16
			for _, expert := range last {
				if r.Float64() < d.repeat {
					row = append(row, expert)
				}
			}
			for len(row) < topK {
				row = append(row, draw(r, weights, row))
			}
			slices.Sort(row)
			rows, last = append(rows, row...), row
		}
		t.Rows = append(t.Rows, rows)
	}
	return t
}

// draw takes an expert by weights, but none of taken.
func draw(r *rand.Rand, weights []float64, taken []uint16) uint16 {
	for {
		total := 0.0
		for _, w := range weights {
			total += w
		}
		at, expert := r.Float64()*total, 0
		for expert < len(weights)-1 && at >= weights[expert] {
			at -= weights[expert]
			expert++
		}
		if !slices.Contains(taken, uint16(expert)) {
			return uint16(expert)
		}
	}
}
