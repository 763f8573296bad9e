package engine_test

import (
	"encoding/json"
	"math"
	"os"
	"slices"
	"testing"

	"github.com/moepool/moepool/coordinator/budget"
	"github.com/moepool/moepool/coordinator/engine"
	"github.com/moepool/moepool/coordinator/tokenizer"
	"github.com/moepool/moepool/kernels"
)

const demoModel = "../../demo/qwen3moe-2m"

func TestDemoGolden(t *testing.T) {
	t.Parallel()
	g := openGolden(t, testdata+"demo/golden.safetensors")
	cp := openCheckpoint(t, demoModel)
	vocabulary := cp.Config().Vocabulary
	e := newEngine(t, cp, newExperts(t, cp, selectSet(t, ""), kernels.F32, 1), kernels.F32, nil)
	for p := range 2 {
		s := newSequence(t, e)
		logits := step(t, e, s, g.ints("p%d.input_ids", p), budget.Prefill, engine.AllLogits)
		d := maxDifference(logits, g.floats("p%d.logits", p))
		ids, _ := greedy(t, e, s, logits[len(logits)-vocabulary:], 24)
		if want := g.ints("p%d.greedy_ids", p); !slices.Equal(ids, want) {
			t.Errorf("prompt %d: greedy ids %v, want %v", p, ids, want)
		}
		t.Logf("prompt %d: largest difference of logits %.2e", p, d)
		if !(d <= 5e-4) {
			t.Errorf("prompt %d: logits differ from the reference by %v", p, d)
		}
	}
}

// The first windows of the held-out text against the reference's float32; q8 within a percent of it.
func TestDemoPerplexity(t *testing.T) {
	t.Parallel()
	data, err := os.ReadFile(testdata + "demo/reference.json")
	if err != nil {
		t.Fatal(err)
	}
	var reference struct {
		Window int       `json:"window"`
		NLL    []float64 `json:"nll_first_8_windows"`
	}
	if err := json.Unmarshal(data, &reference); err != nil {
		t.Fatal(err)
	}
	text, err := os.ReadFile(testdata + "demo/heldout.txt")
	if err != nil {
		t.Fatal(err)
	}
	tk, err := tokenizer.Load(demoModel)
	if err != nil {
		t.Fatal(err)
	}
	ids := tk.Encode(string(text), false)
	windows := len(reference.NLL)
	var total float64
	for _, nll := range reference.NLL {
		total += nll
	}
	cp := openCheckpoint(t, demoModel)
	set := selectSet(t, "")
	for _, test := range []struct {
		format    kernels.Format
		tolerance float64 // of the perplexity, relative
	}{{kernels.F32, 1e-4}, {kernels.Q8, 0.01}} {
		t.Run(test.format.String(), func(t *testing.T) {
			t.Parallel()
			e := newEngine(t, cp, newExperts(t, cp, set, test.format, 1), test.format, nil)
			var sum float64
			for w := range windows {
				window := ids[w*reference.Window : (w+1)*reference.Window]
				s := newSequence(t, e)
				logits := step(t, e, s, window, budget.Prefill, engine.AllLogits)
				nll := negativeLogLikelihood(logits, window, cp.Config().Vocabulary)
				if d := math.Abs(nll - reference.NLL[w]); test.format == kernels.F32 && !(d <= 0.02) {
					t.Errorf("window %d: %v, want %v", w, nll, reference.NLL[w])
				}
				sum += nll
				s.Close()
			}
			ratio := math.Exp((sum - total) / float64(windows*(reference.Window-1)))
			t.Logf("perplexity is %.6f of the reference's", ratio)
			if !(math.Abs(ratio-1) <= test.tolerance) {
				t.Errorf("perplexity is %v of the reference's", ratio)
			}
		})
	}
}

// negativeLogLikelihood predicts every id of a window but the first.
func negativeLogLikelihood(logits []float32, window []int32, vocabulary int) (sum float64) {
	for i, next := range window[1:] {
		row := logits[i*vocabulary : (i+1)*vocabulary]
		largest := float64(slices.Max(row))
		var total float64
		for _, v := range row {
			total += math.Exp(float64(v) - largest)
		}
		sum += math.Log(total) + largest - float64(row[next])
	}
	return sum
}
