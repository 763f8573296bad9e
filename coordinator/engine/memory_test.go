package engine_test

import (
	"context"
	"testing"

	"github.com/moepool/moepool/checkpoint/synth"
	"github.com/moepool/moepool/coordinator/budget"
	"github.com/moepool/moepool/coordinator/engine"
	"github.com/moepool/moepool/kernels"
)

// A decode step allocates no more for a model with more layers, with a budget of all rules, too. Not parallel, as AllocsPerRun demands.
func TestLayersDoNotAllocate(t *testing.T) {
	for _, family := range []string{"qwen3_moe", "qwen2_moe", "mixtral"} { // dense layers, a shared expert, experts only
		allocations := func(layers int, policy budget.Policy) float64 {
			cp := synthetic(t, family, func(s *synth.Spec) { s.Layers = layers })
			e, err := engine.New(cp, engine.Options{
				Team: newTeam(t, 2), ExpertFormat: kernels.Q8, DenseFormat: kernels.Q8, Experts: noExperts{}, Budget: policy,
			})
			if err != nil {
				t.Fatal(err)
			}
			defer e.Close()
			s := newSequence(t, e)
			ctx := context.Background()
			chunk := []engine.Chunk{{Sequence: s, Tokens: []int32{1}, Phase: budget.Decode}}
			return testing.AllocsPerRun(20, func() {
				out, err := e.Step(ctx, chunk)
				if err != nil || out[0].Err != nil {
					t.Fatal(err, out[0].Err)
				}
				chunk[0].Into = out[0].Logits
			})
		}
		for _, policy := range []budget.Policy{{}, {Count: 1, Bytes: 1 << 20, Mass: 0.1, TopP: 0.9, Fill: budget.DefaultFill, Rescue: true}} {
			if few, many := allocations(3, policy), allocations(9, policy); many > few {
				t.Errorf("%s, budget %s: %v allocations with 3 layers, %v with 9", family, policy, few, many)
			}
		}
	}
}

// The caller's memory is used for logits where it suffices, and then has the bits that new memory has.
func TestLogitsInto(t *testing.T) {
	t.Parallel()
	cp := synthetic(t, "mixtral", nil)
	e := newEngine(t, cp, newExperts(t, cp, selectSet(t, ""), kernels.Q8, 1), kernels.Q8, nil)
	tokens := []int32{1, 2, 3}
	want := step(t, e, newSequence(t, e), tokens, budget.Prefill, engine.AllLogits)
	for _, test := range []struct {
		room   int
		others engine.LogitsWanted
		used   bool
	}{
		{0, engine.NoLogits, false}, {3*512 - 1, engine.NoLogits, false}, {3 * 512, engine.NoLogits, true}, {4 * 512, engine.NoLogits, true},
		{6 * 512, engine.LastLogits, false},
	} {
		into := make([]float32, test.room)
		out, err := e.Step(t.Context(), []engine.Chunk{
			{Sequence: newSequence(t, e), Tokens: tokens, Logits: engine.AllLogits, Into: into},
			{Sequence: newSequence(t, e), Tokens: []int32{9}, Logits: test.others},
		})
		if err != nil {
			t.Fatal(err)
		}
		mustEqualBits(t, out[0].Logits, want, 512)
		if used := test.room > 0 && &out[0].Logits[0] == &into[0]; used != test.used {
			t.Errorf("room for %d: used %v, want %v", test.room, used, test.used)
		}
	}
}
