//go:build linux

package main

import (
	"cmp"
	"encoding/json"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"sync"
	"testing"

	"golang.org/x/sync/errgroup"

	"github.com/moepool/moepool/checkpoint"
	"github.com/moepool/moepool/coordinator/attention"
	"github.com/moepool/moepool/coordinator/evaluation"
	"github.com/moepool/moepool/coordinator/tokenizer"
	"github.com/moepool/moepool/internal/rounding"
	"github.com/moepool/moepool/kernels"
)

// formatRow is a row of the table in docs/formats.md: formats of experts and dense weights, or for a rule that is not one of
// our formats the experts rounded by it and computed in float32, which is in the rule's favour.
type formatRow struct {
	name           string
	experts, dense kernels.Format
	rule           rounding.Rule // nil: none
}

var formatRows = []formatRow{
	{"bf16", kernels.BF16, kernels.BF16, nil},
	{"q8", kernels.Q8, kernels.Q8, nil},
	{"fp8", kernels.FP8, kernels.FP8, nil},
	{"q4, dense q8", kernels.Q4, kernels.Q8, nil},
	{"q4, dense q4", kernels.Q4, kernels.Q4, nil},
	{"f32, dense q8", kernels.F32, kernels.Q8, nil},
	{"q4's rule, dense q8", kernels.F32, kernels.Q8, rounding.Int4(32, nil)},
	{"Q4_0's rule, dense q8", kernels.F32, kernels.Q8, rounding.Q40},
	{"Q4_K's rule, dense q8", kernels.F32, kernels.Q8, rounding.Q4K},
}

// candidateRows are other uses of about 4.5 bits, for docs/formats.md; the long run measures them on the demo model.
var candidateRows = []formatRow{
	{"q4's rule, errors weighted by |w|", kernels.F32, kernels.Q8, rounding.Int4(32, func(w float32) float64 { return math.Abs(float64(w)) })},
	{"q4's rule, groups of 64", kernels.F32, kernels.Q8, rounding.Int4(64, nil)},
	{"groups of 16, 8-bit scales", kernels.F32, kernels.Q8, rounding.Int4SmallScales(16)},
	{"IQ4_NL's table, groups of 32", kernels.F32, kernels.Q8, rounding.Table4(32)},
}

// formatTexts gives the windows of each text on which formats are compared, by the text's name.
func formatTexts(t *testing.T, model string) map[string][][]int32 {
	t.Helper()
	if model != demoModel {
		var texts map[string]json.RawMessage
		readJSON(t, filepath.Join(model, "heldout_ids.json"), &texts)
		windows := map[string][][]int32{}
		for _, name := range []string{"chat", "prose"} {
			var w [][]int32
			if err := json.Unmarshal(texts[name], &w); err != nil {
				t.Fatal(err)
			}
			windows[name] = w
		}
		return windows
	}
	text, err := os.ReadFile("../../testdata/demo/heldout.txt")
	if err != nil {
		t.Fatal(err)
	}
	tok, err := tokenizer.Load(model)
	if err != nil {
		t.Fatal(err)
	}
	windows := evaluation.Windows(tok.Encode(string(text), false), 256)
	if !longFormats() {
		return map[string][][]int32{"held out": windows[:16]}
	}
	return map[string][][]int32{"held out": windows[:64]}
}

// longFormats says that more is measured.
func longFormats() bool { return os.Getenv("MOEPOOL_CARVED") != "" }

const demoModel = "../../demo/qwen3moe-2m"

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
	var sums sync.Mutex
	var group errgroup.Group
	group.SetLimit(runtime.GOMAXPROCS(0))
	var tensors []checkpoint.Floats
	for _, name := range cp.Names() {
		tensor, err := cp.Tensor(name)
		if err != nil {
			t.Fatal(err)
		}
		data := tensor.Float32()
		if expert[name] {
			group.Go(func() error {
				rowErrors, rowSquares := roundRows(data, tensor.Columns(), round)
				sums.Lock()
				defer sums.Unlock()
				errors, squares = errors+rowErrors, squares+rowSquares
				return nil
			})
		}
		tensors = append(tensors, checkpoint.Floats{Name: name, Shape: tensor.Shape, Data: data})
	}
	_ = group.Wait() // no function gives an error
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

// roundRows rounds each row and sums squares of the errors and of the weights.
func roundRows(weights []float32, columns int, round rounding.Rule) (errors, squares float64) {
	before := make([]float32, columns)
	for ; len(weights) > 0; weights = weights[columns:] {
		row := weights[:columns]
		copy(before, row)
		round(row)
		for i, w := range before {
			squares += float64(w) * float64(w)
			errors += float64(w-row[i]) * float64(w-row[i])
		}
	}
	return errors, squares
}

// TestFormats measures what each format costs: perplexity and the divergence from float32 (all weights, and a float32 KV cache, against a
// bfloat16 one) on the demo model and, where MOEPOOL_CARVED names it, on the carved SmolLM2.
func TestFormats(t *testing.T) {
	if testing.Short() {
		t.Skip("SKIPPED: long")
	}
	models := []string{demoModel}
	if dir := os.Getenv("MOEPOOL_CARVED"); dir != "" {
		models = append(models, dir)
	}
	for _, model := range models {
		t.Run(filepath.Base(model), func(t *testing.T) {
			server := newServer(t)
			open := func(dir string, experts, dense kernels.Format, kv attention.Format) evaluation.Engine {
				return setup{model: dir, format: experts, dense: dense, kv: kv, parts: 1, workers: 1, threads: 2, server: server}.open(t).Engine
			}
			reference := open(model, kernels.F32, kernels.F32, attention.F32)
			cp, err := checkpoint.Open(model)
			if err != nil {
				t.Fatal(err)
			}
			defer cp.Close()
			var runs []evaluation.Engine
			weights := map[string]float64{}
			rows := formatRows
			if longFormats() && model == demoModel {
				rows = slices.Concat(formatRows, candidateRows)
			}
			for _, r := range rows {
				dir := model
				if r.rule != nil {
					dir, weights[r.name] = roundExperts(t, model, r.rule)
				}
				runs = append(runs, open(dir, r.experts, r.dense, attention.BF16))
			}
			for text, windows := range formatTexts(t, model) {
				t.Run(text, func(t *testing.T) {
					feed := evaluation.Feed{Chunk: 256}
					logits, exact, err := evaluation.Record(t.Context(), reference, windows, cp.Config().Vocabulary, feed, t.TempDir())
					if err != nil {
						t.Fatal(err)
					}
					defer logits.Close()
					results := map[string]*evaluation.Divergence{}
					table := fmt.Sprintf("%s: f32 %.4f\n", text, exact.Value())
					for i, run := range runs {
						compared, err := logits.Compare(t.Context(), run, feed)
						if err != nil {
							t.Fatal(err)
						}
						d, name := compared.Divergence, rows[i].name
						results[name] = d
						table += fmt.Sprintf("| %s | %.4f | %.4f (%+.2f %%) | %.5f | %.3f | %.2f %% | %.2f %% |\n", name, weights[name], d.Run.Value(),
							100*(d.Run.Value()/d.Reference.Value()-1), d.MeanKLD(), d.QuantileKLD(0.999), 100*d.RMSDeltaP(), 100*d.SameTopP())
					}
					t.Log(table)
					requireFormats(t, text, results)
				})
			}
			if ours, theirs := weights["q4's rule, dense q8"], weights["Q4_0's rule, dense q8"]; ours > 0.97*theirs {
				t.Errorf("q4's error of the weights is %v, Q4_0's %v", ours, theirs)
			}
		})
	}
}

// requireFormats holds the formats to what docs/formats.md promises.
func requireFormats(t *testing.T, text string, results map[string]*evaluation.Divergence) {
	off := func(name string) float64 { return results[name].Run.Value()/results[name].Reference.Value() - 1 }
	within := 0.01
	if text == "chat" { // few tokens of a model whose own noise is about 1 %
		within = 0.03
	}
	for _, name := range []string{"bf16", "q8"} {
		if math.Abs(off(name)) > within {
			t.Errorf("%s: perplexity of %s is %+.2f %% away from f32", text, name, 100*off(name))
		}
	}
	// Four bits against llama.cpp's Q4_0 in the same places. q4 has 8-bit activations besides.
	ours, theirs := results["q4, dense q8"], results["Q4_0's rule, dense q8"]
	if ours.MeanKLD() > theirs.MeanKLD() {
		t.Errorf("%s: mean KLD of q4 is %v, of Q4_0's rule %v", text, ours.MeanKLD(), theirs.MeanKLD())
	}
	if ours.Run.Value() > 1.01*theirs.Run.Value() {
		t.Errorf("%s: perplexity of q4 is %v, of Q4_0's rule %v", text, ours.Run.Value(), theirs.Run.Value())
	}
	// Divergence tells formats apart where perplexity doesn't.
	order := []string{"bf16", "q8", "q4, dense q8", "q4, dense q4"}
	if !slices.IsSortedFunc(order, func(a, b string) int { return cmp.Compare(results[a].MeanKLD(), results[b].MeanKLD()) }) {
		t.Errorf("%s: mean KLD does not grow from bf16 over q8 to q4", text)
	}
}
