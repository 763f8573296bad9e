package engine_test

import (
	"context"
	"os"
	"slices"
	"testing"

	"github.com/moepool/moepool/coordinator/budget"
	"github.com/moepool/moepool/coordinator/engine"
	"github.com/moepool/moepool/coordinator/tokenizer"
	"github.com/moepool/moepool/kernels"
)

// demoText is the beginning of the demo model's held-out text.
func demoText(t testing.TB, n int) []int32 {
	t.Helper()
	text, err := os.ReadFile(testdata + "demo/heldout.txt")
	if err != nil {
		t.Fatal(err)
	}
	words, err := tokenizer.Load(demoModel)
	if err != nil {
		t.Fatal(err)
	}
	return words.Encode(string(text), false)[:n]
}

// Predictions change no bit, whenever they are made; they are made where and when they should be, and are often right.
func TestPrediction(t *testing.T) {
	t.Parallel()
	cp := openCheckpoint(t, demoModel)
	c := cp.Config()
	ids := demoText(t, 48)
	run := func(mode engine.Prefetch, misses func(layer, call int) int) (logits []float32, predicted []int, e *engine.Engine) {
		x := newExperts(t, cp, selectSet(t, ""), kernels.Q8, 1)
		e = newEngine(t, cp, x, kernels.Q8, func(o *engine.Options) {
			o.Prefetch = mode
			o.Experts = counted{x, misses}
		})
		x.observe = func(call *engine.ExpertCall) {
			predicted = append(predicted, len(call.Next.Choices))
			if len(call.Next.Choices) > 0 && (call.Next.Layer != call.Layer+1 || len(call.Next.Choices) != len(call.Choices)) {
				t.Errorf("layer %d, %d rows: predicted are %d rows of layer %d", call.Layer, len(call.Choices), len(call.Next.Choices), call.Next.Layer)
			}
		}
		s := newSequence(t, e)
		logits = step(t, e, s, ids[:24], budget.Prefill, engine.AllLogits) // the union is nearly a layer: no prediction
		for _, id := range ids[24:] {
			logits = append(logits, step(t, e, s, []int32{id}, budget.Decode, engine.LastLogits)...)
		}
		return logits, predicted, e
	}
	rows := func(predicted []int) (n int) {
		for _, r := range predicted {
			n += r
		}
		return n
	}
	layers := len(c.Layers)
	none := func(int, int) int { return 0 }
	always := func(int, int) int { return 1 }

	want, predicted, e := run(engine.PrefetchOff, always)
	if rows(predicted) != 0 || len(e.Predictions()) != 0 {
		t.Errorf("off: %v", e.Predictions())
	}
	logits, predicted, e := run(engine.PrefetchOn, none)
	if !slices.Equal(logits, want) {
		t.Error("predictions changed the logits")
	}
	if n := rows(predicted); n != 24*(layers-1) {
		t.Errorf("on: %d predicted rows, want those of 24 steps and %d layers", n, layers-1)
	}
	for i, p := range e.Predictions() {
		recall := p.Recalled / p.Mass
		t.Logf("layer %d: %d rows, recall %.3f", p.Layer, p.Rows, recall)
		least := 2 * float64(c.TopK) / float64(c.Experts) // twice what chance gives
		if i == 0 {
			least = 0 // what the first layer's experts of this model add decides what the second one's router chooses
		}
		if p.Layer != i+1 || p.Rows != 24 || !(recall >= least && recall <= 1) {
			t.Errorf("layer %d: %+v, want %d rows and a recall of at least %.2f", i+1, p, 24, least)
		}
	}
	logits, predicted, _ = run(engine.PrefetchAuto, none)
	if !slices.Equal(logits, want) || rows(predicted) != 0 {
		t.Errorf("auto, all resident: %d predicted rows", rows(predicted))
	}
	// The last miss is in the second decode step's first layer: predictions go on for some steps and end.
	last := layers + layers
	logits, predicted, _ = run(engine.PrefetchAuto, func(_, call int) int { return max(0, min(1, last+1-call)) })
	if !slices.Equal(logits, want) {
		t.Error("predictions changed the logits")
	}
	if after := rows(predicted[last+1:]); after == 0 || after > 8*layers || rows(predicted[last+1+8*layers:]) != 0 {
		t.Errorf("auto: %d predicted rows after the last miss: %v", after, predicted)
	}
}

// counted says how many experts were missing in each call.
type counted struct {
	*localExperts
	misses func(layer, call int) int
}

func (x counted) Compute(ctx context.Context, call *engine.ExpertCall) (engine.ExpertStats, error) {
	stats, err := x.localExperts.Compute(ctx, call)
	stats.Misses = x.misses(call.Layer, x.calls-1)
	return stats, err
}
