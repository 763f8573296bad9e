//go:build linux

package main

import (
	"context"
	"fmt"
	"io"
	"slices"
	"strings"
)

// figures are what one arm gave: medians over its answers.
type figures struct {
	prefill, decode, speed float64 // s, s, tokens/s
	hits                   float64 // share of the experts asked for, while decoding
	read                   float64 // bytes that the disk gave, for each token
	notRead                float64 // bytes that a budget spared, for each token; -1: unknown
	dropped, filled        float64 // experts that an answer lost, and took in their place
	mass                   float64 // share of its gate mass that a row of a layer lost
	faults                 float64 // major, for each token
	anonymous              int64   // of all workers at the end
	killed                 int
	peak                   int64
	tokens                 [][]int32
}

// An answer's prompt for prefill has promptLength tokens; the one for decoding has one, so that its counts are those of decoding.
const promptLength = 26

// measure starts a cluster, lets it answer once so that memory holds what it would after a while, then measures.
func (b *bench) measure(ctx context.Context, o clusterOptions, budget string) (f figures, err error) {
	c, err := b.start(ctx, o)
	if err != nil {
		return f, err
	}
	stopped := false
	defer func() {
		if !stopped {
			c.stop()
		}
	}()
	if _, err := c.ask(ctx, prompt(1, promptLength), b.tokens, 1, budget); err != nil {
		return f, err
	}
	var rounds []figures
	for round := range b.rounds {
		seed := uint64(100 + round)
		p, err := c.ask(ctx, prompt(seed, promptLength), 1, seed, budget)
		if err != nil {
			return f, err
		}
		d, err := c.ask(ctx, prompt(seed+100, 1), b.tokens, seed, budget)
		if err != nil {
			return f, err
		}
		n := float64(b.tokens)
		one := figures{
			prefill: p.Timings.Prefill, decode: d.Timings.Decode, speed: d.Timings.Speed,
			hits: float64(d.Experts.Hits) / max(1, float64(d.Experts.Hits+d.Experts.Misses)),
			read: float64(d.Read) / n, faults: float64(d.Faults) / n, dropped: float64(d.Budget.Dropped),
			filled: float64(d.Budget.Filled), mass: d.Budget.Mass, notRead: -1,
		}
		if d.Budget.BytesNotRead != nil {
			one.notRead = float64(*d.Budget.BytesNotRead) / n
		}
		rounds = append(rounds, one)
		f.tokens = append(f.tokens, d.Tokens)
	}
	of := func(field func(figures) float64) float64 { return medianOf(rounds, field) }
	f.prefill, f.decode = of(func(f figures) float64 { return f.prefill }), of(func(f figures) float64 { return f.decode })
	f.speed, f.hits = of(func(f figures) float64 { return f.speed }), of(func(f figures) float64 { return f.hits })
	f.read, f.notRead = of(func(f figures) float64 { return f.read }), of(func(f figures) float64 { return f.notRead })
	f.dropped, f.mass = of(func(f figures) float64 { return f.dropped }), of(func(f figures) float64 { return f.mass })
	f.filled = of(func(f figures) float64 { return f.filled })
	f.faults = of(func(f figures) float64 { return f.faults })
	end, err := c.counted()
	if err != nil {
		return f, err
	}
	f.anonymous = end.anonymous
	f.killed, f.peak = c.stop()
	stopped = true
	return f, nil
}

func medianOf(rounds []figures, field func(figures) float64) float64 {
	values := make([]float64, len(rounds))
	for i, r := range rounds {
		values[i] = field(r)
	}
	return median(values)
}

func median(values []float64) float64 {
	sorted := slices.Sorted(slices.Values(values))
	middle := len(sorted) / 2
	if len(sorted)%2 == 1 {
		return sorted[middle]
	}
	return (sorted[middle-1] + sorted[middle]) / 2
}

func same(a, b [][]int32) string {
	if slices.EqualFunc(a, b, func(x, y []int32) bool { return slices.Equal(x, y) }) {
		return "yes"
	}
	return "**no**"
}

// header begins a Markdown table.
func header(w io.Writer, columns ...string) {
	fmt.Fprintf(w, "| %s |\n|%s\n", strings.Join(columns, " | "), strings.Repeat("---|", len(columns)))
}

func row(w io.Writer, cells ...string) { fmt.Fprintf(w, "| %s |\n", strings.Join(cells, " | ")) }

func megabytes(n float64) string {
	if n < 0 {
		return "unknown"
	}
	return fmt.Sprintf("%.1f", n/1e6)
}

func percent(share float64) string { return fmt.Sprintf("%.1f %%", 100*share) }
