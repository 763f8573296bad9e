package engine_test

import (
	"encoding/binary"
	"errors"
	"strings"
	"testing"

	"github.com/moepool/moepool/checkpoint"
	"github.com/moepool/moepool/coordinator/budget"
	"github.com/moepool/moepool/coordinator/engine"
	"github.com/moepool/moepool/coordinator/router"
	"github.com/moepool/moepool/kernels"
)

// In the last layer, router and experts see only the rows whose logits are wanted, and these have the bits that they have when all
// are. What was left out is no loss for later positions.
func TestLastLayerComputesWhatIsWanted(t *testing.T) {
	t.Parallel()
	for _, family := range []string{"qwen3_moe", "qwen2_moe", "mixtral"} {
		t.Run(family, func(t *testing.T) {
			t.Parallel()
			cp := synthetic(t, family, nil)
			last, vocabulary := len(cp.Config().Layers)-1, cp.Config().Vocabulary
			x := newExperts(t, cp, selectSet(t, ""), kernels.Q8, 1)
			var routed, computed [8]int // rows by layer
			x.observe = func(call *engine.ExpertCall) { computed[call.Layer] = len(call.Choices) }
			e := newEngine(t, cp, x, kernels.Q8, func(o *engine.Options) {
				o.Observer = func(layer int, choices []router.Choice) { routed[layer] = len(choices) }
			})
			check := func(what string, all, wanted int) {
				t.Helper()
				for layer, l := range cp.Config().Layers {
					if !l.MoE {
						continue
					}
					want := all
					if layer == last {
						want = wanted
					}
					if routed[layer] != want || computed[layer] != want {
						t.Errorf("%s: layer %d of %d: %d rows were routed and %d computed, want %d", what, layer, last+1, routed[layer], computed[layer], want)
					}
				}
				routed, computed = [8]int{}, [8]int{}
			}

			tokens := randomTokens(70, vocabulary, 5)
			all := step(t, e, newSequence(t, e), tokens, budget.Prefill, engine.AllLogits)
			check("all", 70, 70)
			a, b, c := newSequence(t, e), newSequence(t, e), newSequence(t, e)
			out, err := e.Step(t.Context(), []engine.Chunk{
				{Sequence: a, Tokens: tokens[:66], Logits: engine.LastLogits},
				{Sequence: b, Tokens: tokens[:5], Logits: engine.AllLogits},
				{Sequence: c, Tokens: tokens[:65], Logits: engine.NoLogits},
			})
			if err != nil {
				t.Fatal(err)
			}
			check("mixed", 136, 6)
			mustEqualBits(t, out[0].Logits, all[65*vocabulary:66*vocabulary], vocabulary)
			mustEqualBits(t, out[1].Logits, all[:5*vocabulary], vocabulary)
			if out[2].Logits != nil || out[2].Err != nil {
				t.Errorf("%d logits where none are wanted, error %v", len(out[2].Logits), out[2].Err)
			}
			step(t, e, c, tokens[65:66], budget.Prefill, engine.NoLogits)
			check("none", 1, 0)
			mustEqualBits(t, step(t, e, c, tokens[66:], budget.Prefill, engine.LastLogits), all[69*vocabulary:], vocabulary)
			check("last", 4, 1)
			mustEqualBits(t, step(t, e, a, tokens[66:67], budget.Decode, engine.LastLogits), all[66*vocabulary:67*vocabulary], vocabulary)
			check("decode", 1, 1)
		})
	}
}

// Keys and values of the last layer that are not finite are an error of the step that stores them, wanted or not.
func TestLastLayerStoresFiniteValues(t *testing.T) {
	t.Parallel()
	cp := changed(t, func(c *checkpoint.Config) string { return c.Layer(len(c.Layers) - 1).V }, func(tensor []byte, c *checkpoint.Config) {
		for column := range c.Hidden {
			binary.LittleEndian.PutUint16(tensor[2*column:], 0x7f7f) // the largest number of bf16
		}
	})
	e := newEngine(t, cp, newExperts(t, cp, selectSet(t, ""), kernels.Q8, 1), kernels.Q8, nil)
	for _, wanted := range []engine.LogitsWanted{engine.NoLogits, engine.LastLogits, engine.AllLogits} {
		s := newSequence(t, e)
		out, err := e.Step(t.Context(), []engine.Chunk{{Sequence: s, Tokens: []int32{1, 2, 3}, Logits: wanted}})
		if err != nil {
			t.Fatal(err)
		}
		if !errors.Is(out[0].Err, kernels.ErrNotFinite) || !strings.Contains(out[0].Err.Error(), "layer 2, position 0") || s.Length() != 0 {
			t.Errorf("wanted %d: error %v, length %d", wanted, out[0].Err, s.Length())
		}
	}
}
