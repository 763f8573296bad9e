//go:build linux

package main

import (
	"fmt"
	"math"
	"os"
	"path/filepath"
	"testing"

	"github.com/moepool/moepool/checkpoint"
	"github.com/moepool/moepool/internal/rounding"
)

// TestGroupWidths measures the error of expert weights by the width of a group: what docs/formats.md weighs against bytes and speed.
func TestGroupWidths(t *testing.T) {
	t.Parallel()
	if testing.Short() {
		t.Skip("SKIPPED: long")
	}
	models := map[string]int{demoModel: 2} // a layer of so many is measured
	if dir := os.Getenv("MOEPOOL_CARVED"); dir != "" {
		models[dir] = 10
	}
	for model, step := range models {
		t.Run(filepath.Base(model), func(t *testing.T) {
			t.Parallel()
			gateUp, down := expertWeights(t, model, step)
			for _, matrices := range []struct {
				name    string
				tensors []checkpoint.Tensor
			}{{"gate, up", gateUp}, {"down", down}} {
				for _, f := range []struct {
					name string
					rule func(width int) rounding.Rule
				}{{"q8", rounding.Int8}, {"q4", func(width int) rounding.Rule { return rounding.Int4(width, nil) }}} {
					text, last := "", 0.0
					for _, width := range []int{32, 64, 128} {
						e := tensorsError(matrices.tensors, f.rule(width))
						text += fmt.Sprintf(" %d: %.5f", width, e)
						if e < last {
							t.Errorf("%s: the error of %s is smaller with groups of %d than with half of that", matrices.name, f.name, width)
						}
						last = e
					}
					t.Logf("%s: relative error of %s with groups of%s", matrices.name, f.name, text)
				}
				t.Logf("%s: Q4_0's rule %.5f, Q4_K's %.5f", matrices.name, tensorsError(matrices.tensors, rounding.Q40), tensorsError(matrices.tensors, rounding.Q4K))
			}
		})
	}
}

// expertWeights are the experts' matrices of each step-th layer.
func expertWeights(t *testing.T, model string, step int) (gateUp, down []checkpoint.Tensor) {
	t.Helper()
	cp, err := checkpoint.Open(model)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { cp.Close() })
	c := cp.Config()
	tensor := func(name string) checkpoint.Tensor {
		w, err := cp.Tensor(name)
		if err != nil {
			t.Fatal(err)
		}
		return w
	}
	for layer := 0; layer < len(c.Layers); layer += step {
		for expert := range c.Experts {
			names := c.Expert(layer, expert)
			gateUp = append(gateUp, tensor(names.Gate), tensor(names.Up))
			down = append(down, tensor(names.Down))
		}
	}
	return gateUp, down
}

// tensorsError is the root of squared errors over squares.
func tensorsError(tensors []checkpoint.Tensor, rule rounding.Rule) float64 {
	var errors, squares float64
	for _, w := range tensors {
		e, s := roundRows(w.Float32(), w.Columns(), rule)
		errors, squares = errors+e, squares+s
	}
	return math.Sqrt(errors / squares)
}
