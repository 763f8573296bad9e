package engine_test

import (
	"fmt"
	"math"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/moepool/moepool/checkpoint"
	"github.com/moepool/moepool/coordinator/attention"
	"github.com/moepool/moepool/coordinator/budget"
	"github.com/moepool/moepool/coordinator/engine"
	"github.com/moepool/moepool/coordinator/router"
	"github.com/moepool/moepool/kernels"
)

// golden reads a file of reference outputs.
type golden struct {
	t    *testing.T
	file *checkpoint.TensorFile
}

func openGolden(t *testing.T, path string) golden {
	t.Helper()
	f, err := checkpoint.OpenTensors(path)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = f.Close() })
	return golden{t, f}
}

func (g golden) floats(name string, args ...any) []float32 {
	g.t.Helper()
	x, err := g.file.Float32s(fmt.Sprintf(name, args...))
	if err != nil {
		g.t.Fatal(err)
	}
	return x
}

func (g golden) ints(name string, args ...any) []int32 {
	g.t.Helper()
	x, err := g.file.Int32s(fmt.Sprintf(name, args...))
	if err != nil {
		g.t.Fatal(err)
	}
	return x
}

var goldenModels = []string{
	"qwen3_moe", "qwen3_moe_nonorm", "qwen3_moe_tied", "qwen3_moe_sharded", "qwen2_moe", "qwen2_moe_dense_mix", "mixtral", "mixtral_swa",
	"qwen3_moe_fp8",
}

// Against transformers in float32, with both spellings of config.json.
func TestGolden(t *testing.T) {
	t.Parallel()
	for _, name := range goldenModels {
		for _, config := range []string{"config.json", "config.v5.json"} {
			if name == "qwen3_moe_fp8" && config != "config.json" {
				continue // it has one spelling
			}
			t.Run(name+"/"+config, func(t *testing.T) {
				t.Parallel()
				checkGolden(t, withConfig(t, testdata+"tiny/"+name, config), kernels.F32)
			})
		}
	}
	t.Run("qwen3_moe_fp8/as stored", func(t *testing.T) {
		t.Parallel()
		checkGolden(t, testdata+"tiny/qwen3_moe_fp8", kernels.FP8)
	})
}

// withConfig gives a folder like dir whose config.json is another file of it.
func withConfig(t *testing.T, dir, config string) string {
	t.Helper()
	if config == "config.json" {
		return dir
	}
	copied := t.TempDir()
	entries, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	for _, entry := range entries {
		name := entry.Name()
		if name == "config.json" {
			continue
		}
		data, err := os.ReadFile(filepath.Join(dir, name))
		if err != nil {
			t.Fatal(err)
		}
		if name == config {
			name = "config.json"
		}
		if err := os.WriteFile(filepath.Join(copied, name), data, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return copied
}

func checkGolden(t *testing.T, dir string, format kernels.Format) {
	g := openGolden(t, filepath.Join(dir, "golden.safetensors"))
	cp := openCheckpoint(t, dir)
	routed := make([][]router.Choice, len(cp.Config().Layers))
	x := newExperts(t, cp, selectSet(t, ""), format, 1)
	e := newEngine(t, cp, x, format, func(o *engine.Options) {
		o.KVFormat = attention.F32
		o.Observer = func(layer int, choices []router.Choice) { routed[layer] = cloneChoices(choices) }
	})
	for p := range 2 {
		s := newSequence(t, e)
		ids := g.ints("p%d.input_ids", p)
		logits := step(t, e, s, ids, budget.Prefill, engine.AllLogits)
		prefill := maxDifference(logits, g.floats("p%d.logits", p))
		for layer := range routed {
			if cp.Config().Layers[layer].MoE {
				checkRouting(t, g, fmt.Sprintf("p%d.layer%d", p, layer), routed[layer], cp.Config().TopK)
			}
		}
		continued, continuedLogits := greedy(t, e, s, logits[len(logits)-cp.Config().Vocabulary:], 24)
		if want := g.ints("p%d.greedy_ids", p); !slices.Equal(continued, want) {
			t.Errorf("prompt %d: greedy ids %v, want %v", p, continued, want)
		}
		decode := maxDifference(continuedLogits, g.floats("p%d.greedy_logits", p))
		t.Logf("prompt %d: largest difference of logits: prefill %.2e, greedy %.2e", p, prefill, decode)
		if !(prefill <= 5e-4) || !(decode <= 5e-4) {
			t.Errorf("prompt %d: logits differ from the reference by %v and %v", p, prefill, decode)
		}
	}
}

func checkRouting(t *testing.T, g golden, prefix string, rows []router.Choice, k int) {
	t.Helper()
	ids, weights := g.ints("%s.topk_ids", prefix), g.floats("%s.topk_weights", prefix)
	if len(rows)*k != len(ids) {
		t.Fatalf("%s: %d rows routed, want %d", prefix, len(rows), len(ids)/k)
	}
	for i, c := range rows {
		if !slices.Equal(c.Experts, ids[i*k:(i+1)*k]) {
			t.Errorf("%s: position %d has experts %v, want %v", prefix, i, c.Experts, ids[i*k:(i+1)*k])
		} else if d := maxDifference(c.Weights, weights[i*k:(i+1)*k]); !(d <= 1e-4) {
			t.Errorf("%s: position %d: weights differ by %v", prefix, i, d)
		}
	}
}

// The budget in every layer of a model. The references were made with the plain rule: prefill is cut, nothing is rescued.
func TestGoldenBudget(t *testing.T) {
	t.Parallel()
	dir := testdata + "tiny/qwen3_moe/"
	cp := openCheckpoint(t, dir)
	for _, run := range []struct {
		name     string
		count    int
		resident int32 // experts below are, in every layer
		safe     [2]int
	}{
		{"none2", 2, 0, [2]int{16, 16}},
		{"none4", 4, 0, [2]int{16, 16}},
		{"none8", 8, 0, [2]int{16, 16}},
		{"res0123_6", 6, 4, [2]int{16, 7}},
	} {
		t.Run(run.name, func(t *testing.T) {
			t.Parallel()
			g := openGolden(t, dir+"golden.safetensors")
			b := openGolden(t, dir+"golden_budget_model.safetensors")
			x := newExperts(t, cp, selectSet(t, ""), kernels.F32, 1)
			x.resident = func(_ int, expert int32) bool { return expert < run.resident }
			routed, kept := make([][]router.Choice, 4), make([][]router.Choice, 4)
			x.observe = func(call *engine.ExpertCall) { kept[call.Layer] = cloneChoices(call.Choices) }
			e := newEngine(t, cp, x, kernels.F32, func(o *engine.Options) {
				o.Budget = budget.Policy{Count: run.count, Prefill: true}
				o.Observer = func(layer int, choices []router.Choice) { routed[layer] = cloneChoices(choices) }
			})
			for p := range 2 {
				s := newSequence(t, e)
				prefix := fmt.Sprintf("%s.p%d", run.name, p)
				logits := step(t, e, s, g.ints("p%d.input_ids", p), budget.Prefill, engine.AllLogits)
				d := maxDifference(logits, b.floats("%s.logits", prefix))
				t.Logf("prompt %d: largest difference of logits %.2e", p, d)
				if !(d <= 5e-4) {
					t.Errorf("prompt %d: logits differ from the reference by %v", p, d)
				}
				for layer := range 4 {
					checkBudget(t, b, fmt.Sprintf("%s.layer%d", prefix, layer), routed[layer], kept[layer])
				}
				ids, _ := greedy(t, e, s, logits[len(logits)-512:], 16)
				if want := b.ints("%s.greedy_ids", prefix); !slices.Equal(ids[:run.safe[p]], want[:run.safe[p]]) {
					t.Errorf("prompt %d: greedy ids %v, want %v (the first %d)", p, ids, want, run.safe[p])
				}
			}
			totals := e.Totals()
			if totals.DroppedExperts == 0 || totals.DroppedMass == 0 || totals.RescuedRows != 0 {
				t.Errorf("totals %+v: experts dropped, but not counted", totals)
			}
			shape := kernels.ExpertShape{Format: kernels.F32, Hidden: 64, Intermediate: 32}
			if want := int64(totals.DroppedExperts * shape.Bytes()); totals.DroppedBytes != want {
				t.Errorf("%d bytes dropped, want %d", totals.DroppedBytes, want)
			}
		})
	}
}

// checkBudget compares what was chosen and what is left of it; a dropped expert has weight 0 in the reference.
func checkBudget(t *testing.T, g golden, prefix string, routed, kept []router.Choice) {
	t.Helper()
	ids, weights := g.ints("%s.topk_ids", prefix), g.floats("%s.topk_weights", prefix)
	at := 0
	for i := range routed {
		left := map[int32]float32{}
		for j, id := range kept[i].Experts {
			left[id] = kept[i].Weights[j]
		}
		for _, id := range routed[i].Experts {
			if id != ids[at] || math.Abs(float64(left[id])-float64(weights[at])) > 1e-4 {
				t.Errorf("%s: position %d: expert %d with weight %v, want %d with %v", prefix, i, id, left[id], ids[at], weights[at])
			}
			at++
		}
	}
	if at != len(ids) {
		t.Errorf("%s: %d experts, want %d", prefix, at, len(ids))
	}
}
