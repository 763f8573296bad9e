package engine_test

import (
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/moepool/moepool/checkpoint"
	"github.com/moepool/moepool/checkpoint/synth"
	"github.com/moepool/moepool/coordinator/attention"
	"github.com/moepool/moepool/coordinator/budget"
	"github.com/moepool/moepool/coordinator/engine"
	"github.com/moepool/moepool/kernels"
)

// synthetic gives a small random model.
func synthetic(t testing.TB, family string, change func(*synth.Spec)) *checkpoint.Checkpoint {
	t.Helper()
	s := synth.Tiny(family)
	if change != nil {
		change(&s)
	}
	dir := t.TempDir() + "/model"
	if err := synth.Write(dir, s, nil); err != nil {
		t.Fatal(err)
	}
	return openCheckpoint(t, dir)
}

func randomTokens(n, vocabulary int, seed uint64) []int32 {
	r := rand.New(rand.NewPCG(seed, 0))
	ids := make([]int32, n)
	for i := range ids {
		ids[i] = r.Int32N(int32(vocabulary))
	}
	return ids
}

// variant is one way to compute the same logits.
type variant struct {
	kernels   string
	threads   int
	chunk     int // positions of a step; 0 is all
	neighbour bool
	kv        attention.Format // "" is the default
}

// logits computes tokens' logits, all but the last three of them as prefill.
func (v variant) logits(t *testing.T, e *engine.Engine, tokens []int32) []float32 {
	t.Helper()
	s, other := newSequence(t, e), newSequence(t, e)
	neighbours := randomTokens(len(tokens), e.Config().Vocabulary, 99)
	var out []float32
	prefill := len(tokens) - 3
	for from := 0; from < len(tokens); {
		c := engine.Chunk{Sequence: s, Phase: budget.Decode, Logits: engine.AllLogits}
		to := from + 1
		if from < prefill {
			c.Phase, to = budget.Prefill, prefill
			if v.chunk > 0 {
				to = min(to, from+v.chunk)
			}
		}
		c.Tokens = tokens[from:to]
		chunks := []engine.Chunk{c}
		if v.neighbour {
			n := min(1+from%3, len(neighbours))
			chunks = []engine.Chunk{{Sequence: other, Tokens: neighbours[:n], Phase: budget.Prefill}, c}
			neighbours = neighbours[n:]
			if n == 0 {
				chunks = chunks[1:]
			}
		}
		outputs, err := e.Step(t.Context(), chunks)
		if err != nil {
			t.Fatal(err)
		}
		last := outputs[len(outputs)-1]
		if last.Err != nil {
			t.Fatal(last.Err)
		}
		out = append(out, last.Logits...)
		from = to
	}
	return out
}

// mustEqualBits fails at the first logit that differs in any bit.
func mustEqualBits(t *testing.T, got, want []float32, vocabulary int) {
	t.Helper()
	if len(got) != len(want) {
		t.Fatalf("%d logits, want %d", len(got), len(want))
	}
	for i := range want {
		if math.Float32bits(got[i]) != math.Float32bits(want[i]) {
			t.Fatalf("logit %d of position %d is %v, want exactly %v", i%vocabulary, i/vocabulary, got[i], want[i])
		}
	}
}

// The full product on the family with every kind of layer.
func TestSameBitsFullProduct(t *testing.T) {
	t.Parallel()
	cp := synthetic(t, "qwen2_moe", nil)
	tokens := randomTokens(10, cp.Config().Vocabulary, 5)
	for _, format := range matrixFormats {
		for parts := range min(3, kernels.MaxParts(format, cp.Config().ExpertIntermediate)) {
			parts++
			t.Run(fmt.Sprintf("%s/parts=%d", format, parts), func(t *testing.T) {
				t.Parallel()
				var variants []variant
				for _, name := range kernels.Available() {
					for _, threads := range []int{1, 2, 4} {
						for _, chunk := range []int{0, 5, 1} {
							variants = append(variants, variant{name, threads, chunk, false, ""}, variant{name, threads, chunk, true, ""})
						}
					}
				}
				checkVariants(t, cp, format, parts, tokens, variants)
			})
		}
	}
}

// Pairs of settings on the others, some with positions in more than one block of attention.
func TestSameBitsPairwise(t *testing.T) {
	t.Parallel()
	window := func(s *synth.Spec) { s.Layers, s.SlidingWindow = 2, 20 }
	for _, test := range []struct {
		name, family string
		positions    int
		change       func(*synth.Spec)
		kv           attention.Format
	}{
		{"qwen3_moe", "qwen3_moe", 68, nil, ""},
		{"mixtral", "mixtral", 14, nil, attention.Int8},
		{"mixtral with a window", "mixtral", 68, window, ""},
		{"mixtral with a window, int8 KV", "mixtral", 68, window, attention.Int8},
		{"qwen3_moe in f16", "qwen3_moe", 14, func(s *synth.Spec) { s.DType = checkpoint.F16 }, ""},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			cp := synthetic(t, test.family, test.change)
			tokens := randomTokens(test.positions, cp.Config().Vocabulary, 6)
			// Every value of a setting meets every format, number of parts and implementation.
			for i, format := range matrixFormats {
				for parts := range min(3, kernels.MaxParts(format, cp.Config().ExpertIntermediate)) {
					parts++
					t.Run(fmt.Sprintf("%s/parts=%d", format, parts), func(t *testing.T) {
						t.Parallel()
						var variants []variant
						for j, name := range kernels.Available() {
							k := i + j + parts
							variants = append(variants,
								variant{name, []int{1, 2, 4}[k%3], 5, k%2 == 0, test.kv},
								variant{name, []int{1, 2, 4}[(k+1)%3], []int{0, 1}[k%2], k%2 == 1, test.kv})
						}
						checkVariants(t, cp, format, parts, tokens, variants)
					})
				}
			}
		})
	}
}

func checkVariants(t *testing.T, cp *checkpoint.Checkpoint, format kernels.Format, parts int, tokens []int32, variants []variant) {
	x := newExperts(t, cp, selectSet(t, "generic"), format, parts)
	engines := map[string]*engine.Engine{}
	logits := func(t *testing.T, v variant) []float32 {
		x.set = selectSet(t, v.kernels)
		key := fmt.Sprint(v.kernels, v.threads)
		if engines[key] == nil {
			engines[key] = newEngine(t, cp, x, format, func(o *engine.Options) { o.Team, o.KVFormat = newTeam(t, v.threads), v.kv })
		}
		return v.logits(t, engines[key], tokens)
	}
	want := logits(t, variant{kernels: "generic", threads: 1, kv: variants[0].kv})
	for _, v := range variants {
		if got := logits(t, v); !equalBits(got, want) {
			t.Errorf("%+v gives other bits", v)
		}
	}
}

func equalBits(a, b []float32) bool {
	return slices.EqualFunc(a, b, func(x, y float32) bool { return math.Float32bits(x) == math.Float32bits(y) })
}

// Both float formats hold a bfloat16 checkpoint exactly, so they agree in every bit (with keys and values in float32, too).
func TestF32EqualsBF16(t *testing.T) {
	t.Parallel()
	cp := synthetic(t, "qwen3_moe", nil)
	tokens := randomTokens(12, cp.Config().Vocabulary, 5)
	var results [][]float32
	for _, format := range []kernels.Format{kernels.F32, kernels.BF16} {
		x := newExperts(t, cp, selectSet(t, ""), format, 1)
		e := newEngine(t, cp, x, format, func(o *engine.Options) { o.KVFormat = "f32" })
		results = append(results, step(t, e, newSequence(t, e), tokens, budget.Prefill, engine.AllLogits))
	}
	mustEqualBits(t, results[1], results[0], cp.Config().Vocabulary)
}
