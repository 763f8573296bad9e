//go:build linux

package main

import (
	"encoding/json"
	"math"
	"os"
	"path/filepath"
	"testing"

	"github.com/moepool/moepool/checkpoint"
	"github.com/moepool/moepool/coordinator/evaluation"
	"github.com/moepool/moepool/kernels"
)

// roundQ4_0 replaces weights by what llama.cpp's Q4_0 keeps of them: groups of 32, the scale is the weight of largest magnitude
// divided by -8 as float16 (here unrounded, in its favour), codes are floor(w/scale + 8.5), at most 15.
func roundQ4_0(weights []float32) {
	for ; len(weights) > 0; weights = weights[min(32, len(weights)):] {
		group := weights[:min(32, len(weights))]
		var largest float32
		for _, w := range group {
			if math.Abs(float64(w)) > math.Abs(float64(largest)) {
				largest = w
			}
		}
		if largest == 0 {
			continue
		}
		scale := float64(largest) / -8
		for i, w := range group {
			group[i] = float32((min(15, math.Floor(float64(w)/scale+8.5)) - 8) * scale)
		}
	}
}

// roundQ4 replaces weights by what q4 keeps of them.
func roundQ4(t *testing.T, weights []float32) {
	t.Helper()
	m := kernels.Matrix{Format: kernels.Q4, Outputs: 1, Columns: len(weights), Data: make([]byte, kernels.MatrixBytes(kernels.Q4, 1, len(weights)))}
	if err := kernels.Pack(m, func(_ int, dst []float32) { copy(dst, weights) }); err != nil {
		t.Fatal(err)
	}
	m.Unpack(0, weights)
}

// roundExperts writes a copy of a model whose experts' rows went through round, and gives its folder and the relative error of
// all their weights.
func roundExperts(t *testing.T, model string, round func([]float32)) (dir string, relative float64) {
	t.Helper()
	cp, err := checkpoint.Open(model)
	if err != nil {
		t.Fatal(err)
	}
	defer cp.Close()
	c := cp.Config()
	expert := map[string]bool{}
	for i, l := range c.Layers {
		for e := 0; l.MoE && e < c.Experts; e++ {
			n := c.Expert(i, e)
			expert[n.Gate], expert[n.Up], expert[n.Down] = true, true, true
		}
	}
	var squares, errors float64
	var tensors []checkpoint.Floats
	for _, name := range cp.Names() {
		tensor, err := cp.Tensor(name)
		if err != nil {
			t.Fatal(err)
		}
		data := tensor.Float32()
		if expert[name] {
			before := make([]float32, tensor.Columns())
			for r := range tensor.Rows() {
				row := data[r*len(before) : (r+1)*len(before)]
				copy(before, row)
				round(row)
				for i, w := range before {
					squares += float64(w) * float64(w)
					errors += float64(w-row[i]) * float64(w-row[i])
				}
			}
		}
		tensors = append(tensors, checkpoint.Floats{Name: name, Shape: tensor.Shape, Data: data})
	}
	dir = t.TempDir()
	files, err := filepath.Glob(filepath.Join(model, "*.json"))
	if err != nil {
		t.Fatal(err)
	}
	for _, path := range files {
		data, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(dir, filepath.Base(path)), data, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	if err := checkpoint.WriteTensors(filepath.Join(dir, "model.safetensors"), tensors); err != nil {
		t.Fatal(err)
	}
	return dir, math.Sqrt(errors / squares)
}

// q4 against llama.cpp's Q4_0 rule in the same places: the experts' weights, everything else in q8. Both need 4.5 bits a weight.
func TestFourBitExpertsAgainstQ4_0(t *testing.T) {
	if testing.Short() {
		t.Skip("SKIPPED: long")
	}
	const demoModel = "../../demo/qwen3moe-2m"
	measure := map[string]func(model, format string) []float64{
		demoModel: func(model, format string) []float64 {
			var rows []evalRow
			mustUnmarshal(t, moepool(t, "eval", "--json", "--model", model, "--format", format, "--dense-format", "q8", "--arena-dir", "none",
				"../../testdata/demo/heldout.txt"), &rows)
			return []float64{rows[0].Perplexity}
		},
	}
	if dir := os.Getenv("MOEPOOL_CARVED"); dir != "" {
		var text map[string]json.RawMessage
		readJSON(t, filepath.Join(dir, "heldout_ids.json"), &text)
		server := newServer(t)
		measure[dir] = func(model, name string) (perplexities []float64) {
			format, err := kernels.ParseFormat(name)
			if err != nil {
				t.Fatal(err)
			}
			c := setup{model: model, format: format, dense: kernels.Q8, kv: "bf16", parts: 1, workers: 1, threads: 2, server: server}.open(t)
			for _, kind := range []string{"chat", "prose"} {
				var windows [][]int32
				if err := json.Unmarshal(text[kind], &windows); err != nil {
					t.Fatal(err)
				}
				p, err := evaluation.Measure(t.Context(), c.Engine, windows, 256, nil)
				if err != nil {
					t.Fatal(err)
				}
				perplexities = append(perplexities, p.Value())
			}
			return perplexities
		}
	}
	for model, perplexities := range measure {
		theirs, theirError := roundExperts(t, model, roundQ4_0)
		_, ourError := roundExperts(t, model, func(w []float32) { roundQ4(t, w) })
		four, competitor := perplexities(model, "q4"), perplexities(theirs, "f32")
		t.Logf("%s: relative error of the weights: q4 %.4f, Q4_0 %.4f", filepath.Base(model), ourError, theirError)
		t.Logf("perplexities with q8 dense weights: experts q4 %.4f, Q4_0's weights (computed in f32) %.4f", four, competitor)
		if ourError > 0.97*theirError {
			t.Errorf("%s: q4's error %v is not below Q4_0's %v", model, ourError, theirError)
		}
		for i := range four {
			// The models' own noise is about 1 %.
			if four[i] > competitor[i]*1.01 {
				t.Errorf("%s: perplexity of q4 is %v, of Q4_0's rule %v", model, four[i], competitor[i])
			}
		}
	}
}
