package engine_test

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/moepool/moepool/checkpoint"
	"github.com/moepool/moepool/checkpoint/synth"
	"github.com/moepool/moepool/coordinator/budget"
	"github.com/moepool/moepool/coordinator/engine"
	"github.com/moepool/moepool/kernels"
)

// BenchmarkRecall measures predictions of experts one and two layers ahead, of the demo model, a random one and, where MOEPOOL_CARVED names it,
// the carved SmolLM2, token by token: the recall by gate mass; and what that means where a third of the experts is in memory, by least recent use: how many of
// the missing experts were predicted (recall-of-misses), and how many of those that were predicted and missing were then wanted (precision).
// Run it with -benchtime 1x.
func BenchmarkRecall(b *testing.B) {
	type source struct {
		dir string
		ids []int32
	}
	models := map[string]func(b *testing.B) source{
		"demo": func(b *testing.B) source { return source{demoModel, demoText(b, 1024)} },
		"synthetic": func(b *testing.B) source {
			spec := synth.Tiny("qwen3_moe")
			spec.Experts, spec.TopK, spec.Layers, spec.Hidden, spec.Vocabulary, spec.DenseLayers, spec.SparseStep = 128, 8, 6, 256, 2048, nil, 1
			dir := b.TempDir() + "/model"
			if err := synth.Write(dir, spec, nil); err != nil {
				b.Fatal(err)
			}
			return source{dir, zipf(512, spec.Vocabulary)}
		},
		"carved": func(b *testing.B) source {
			dir := os.Getenv("MOEPOOL_CARVED")
			if dir == "" {
				b.Skip("MOEPOOL_CARVED is not set")
			}
			data, err := os.ReadFile(filepath.Join(dir, "heldout_ids.json"))
			if err != nil {
				b.Fatal(err)
			}
			var text struct{ Chat, Prose [][]int32 }
			if err := json.Unmarshal(data, &text); err != nil {
				b.Fatal(err)
			}
			return source{dir, append(text.Chat[0], text.Prose[0]...)}
		},
	}
	for _, name := range []string{"demo", "synthetic", "carved"} {
		for _, ahead := range []int{1, 2} {
			b.Run(fmt.Sprintf("model=%s/ahead=%d", name, ahead), func(b *testing.B) {
				m := models[name](b)
				cp := openCheckpoint(b, m.dir)
				x := newExperts(b, cp, selectSet(b, ""), kernels.Q8, 1)
				third := newThird(cp.Config())
				x.observe = third.see
				e := newEngine(b, cp, x, kernels.Q8, func(o *engine.Options) { o.Prefetch = engine.PrefetchOn })
				e.PredictAhead(ahead)
				for b.Loop() {
					for window := range slices.Chunk(m.ids, 256) {
						s := newSequence(b, e)
						for _, id := range window {
							step(b, e, s, []int32{id}, budget.Decode, engine.LastLogits)
						}
					}
				}
				var mass, recalled float64
				for _, p := range e.Predictions() {
					b.Logf("layer %2d: recall %.3f", p.Layer, p.Recalled/p.Mass)
					mass, recalled = mass+p.Mass, recalled+p.Recalled
				}
				b.ReportMetric(recalled/mass, "recall")
				b.ReportMetric(float64(third.recalled)/float64(third.missed), "recall-of-misses")
				b.ReportMetric(float64(third.recalled)/float64(third.hinted), "precision")
				b.ReportMetric(1-float64(third.missed)/float64(third.wanted), "hits")
			})
		}
	}
}

// third is a third of a model's experts, the most recently used ones, and what predictions would have told of the others.
type third struct {
	used             map[[2]int32]int // when; by layer and expert
	room, now        int
	hints            map[[2]int32]bool
	hinted, recalled int // predicted and missing when their layer came; of these, wanted
	wanted, missed   int // in layers that were predicted
}

func newThird(c *checkpoint.Config) *third {
	layers := 0
	for _, l := range c.Layers {
		if l.MoE {
			layers++
		}
	}
	return &third{used: map[[2]int32]int{}, hints: map[[2]int32]bool{}, room: layers * c.Experts / 3}
}

func (t *third) see(call *engine.ExpertCall) {
	predicted := false
	for hint := range t.hints {
		if hint[0] == int32(call.Layer) {
			predicted = true
			if _, resident := t.used[hint]; !resident {
				t.hinted++
			}
		}
	}
	for _, expert := range call.Choices[0].Experts {
		key := [2]int32{int32(call.Layer), expert}
		_, resident := t.used[key]
		if predicted {
			t.wanted++
			if !resident {
				t.missed++
				if t.hints[key] {
					t.recalled++
				}
			}
		}
	}
	for _, expert := range call.Choices[0].Experts {
		t.now++
		t.used[[2]int32{int32(call.Layer), expert}] = t.now
	}
	for len(t.used) > t.room {
		var oldest [2]int32
		when := t.now + 1
		for key, at := range t.used {
			if at < when {
				oldest, when = key, at
			}
		}
		delete(t.used, oldest)
	}
	for hint := range t.hints {
		if hint[0] == int32(call.Layer) {
			delete(t.hints, hint)
		}
	}
	if len(call.Next.Choices) > 0 {
		for _, expert := range call.Next.Choices[0].Experts {
			t.hints[[2]int32{int32(call.Next.Layer), expert}] = true
		}
	}
}

// zipf draws tokens by Zipf's law.
func zipf(n, vocabulary int) []int32 {
	r := rand.NewZipf(rand.New(rand.NewPCG(5, 5)), 1.1, 1, uint64(vocabulary-1))
	ids := make([]int32, n)
	for i := range ids {
		ids[i] = int32(r.Uint64())
	}
	return ids
}
