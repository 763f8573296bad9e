package main

import (
	"fmt"
	"io"
	"slices"
	"strings"
)

// results are the samples of one comparison.
type results struct {
	tests, names []string // in the order of their first samples
	values       map[[2]string][]float64
}

func newResults() *results { return &results{values: map[[2]string][]float64{}} }

func (r *results) add(name string, samples []sample) {
	if !slices.Contains(r.names, name) {
		r.names = append(r.names, name)
	}
	for _, s := range samples {
		if !slices.Contains(r.tests, s.test) {
			r.tests = append(r.tests, s.test)
		}
		key := [2]string{name, s.test}
		r.values[key] = append(r.values[key], s.value)
	}
}

// print writes a Markdown table: the median of each contestant (lowest to highest), and how many times better ours is than the
// best of the others.
func (r *results) print(w io.Writer, ours string, lessIsBetter bool) {
	unit := "t/s"
	if lessIsBetter {
		unit = "ms"
	}
	fmt.Fprintf(w, "| %s | %s |\n|---%s|\n", unit, strings.Join(r.tests, " | "), strings.Repeat("|---", len(r.tests)))
	for _, name := range r.names {
		fmt.Fprintf(w, "| %s |", name)
		for _, test := range r.tests {
			v := r.values[[2]string{name, test}]
			if len(v) == 0 {
				fmt.Fprint(w, " |")
				continue
			}
			fmt.Fprintf(w, " %.4g (%.4g–%.4g) |", median(v), slices.Min(v), slices.Max(v))
		}
		fmt.Fprintln(w)
	}
	fmt.Fprintf(w, "| **%s against the best peer** |", ours)
	family, _, _ := strings.Cut(ours, " ")
	for _, test := range r.tests {
		best := 0.0
		for _, name := range r.names {
			v := r.values[[2]string{name, test}]
			if strings.HasPrefix(name, family+" ") || len(v) == 0 {
				continue
			}
			if m := median(v); best == 0 || lessIsBetter == (m < best) {
				best = m
			}
		}
		v := r.values[[2]string{ours, test}]
		if best == 0 || len(v) == 0 {
			fmt.Fprint(w, " |")
			continue
		}
		ratio := median(v) / best
		if lessIsBetter {
			ratio = 1 / ratio
		}
		fmt.Fprintf(w, " **%.2f×** |", ratio)
	}
	fmt.Fprintln(w)
}

func median(v []float64) float64 {
	sorted := slices.Sorted(slices.Values(v))
	middle := len(sorted) / 2
	if len(sorted)%2 == 1 {
		return sorted[middle]
	}
	return (sorted[middle-1] + sorted[middle]) / 2
}
