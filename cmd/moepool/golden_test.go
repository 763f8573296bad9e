//go:build linux

package main

import (
	"slices"
	"strings"
	"testing"

	"github.com/moepool/moepool/checkpoint"
	"github.com/moepool/moepool/coordinator"
	"github.com/moepool/moepool/coordinator/generation"
	"github.com/moepool/moepool/kernels"
)

// TestGoldens runs every fixture of the supported families over NATS with two workers, in float32, against transformers'
// logits and greedy tokens. The engine's own tests compare the router's choices too.
func TestGoldens(t *testing.T) {
	t.Parallel()
	server := newServer(t)
	for _, name := range []string{"qwen3_moe", "qwen3_moe_nonorm", "qwen3_moe_tied", "qwen3_moe_sharded", "qwen2_moe", "qwen2_moe_dense_mix",
		"mixtral", "mixtral_swa", "qwen3_moe_fp8", "qwen3_moe_fp8/stored"} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			format := kernels.F32
			name, stored := strings.CutSuffix(name, "/stored")
			if stored {
				format = kernels.FP8
			}
			golden, err := checkpoint.OpenTensors(tiny(name) + "/golden.safetensors")
			if err != nil {
				t.Fatal(err)
			}
			defer golden.Close()
			c := setup{model: tiny(name), format: format, kv: "f32", parts: 1, workers: 2, threads: 1, server: server}.open(t)
			vocabulary := c.Checkpoint.Config().Vocabulary
			for _, p := range []string{"p0.", "p1."} {
				prompt := goldenInts(t, golden, p+"input_ids")
				greedy := goldenInts(t, golden, p+"greedy_ids")
				r, err := c.Generate(t.Context(), coordinator.Request{
					Prompt: coordinator.Prompt{Tokens: prompt}, MaxTokens: len(greedy), IgnoreEOS: true, KeepLogits: true,
				}, nil, func(generation.Piece) error { return nil })
				if err != nil {
					t.Fatal(err)
				}
				if !slices.Equal(r.Tokens, greedy) {
					t.Errorf("%s tokens %v, golden %v", p, r.Tokens, greedy)
				}
				want := append(goldenFloats(t, golden, p+"logits"), goldenFloats(t, golden, p+"greedy_logits")[vocabulary:]...)
				worst := largestDifference(r.Logits, want)
				t.Logf("%s largest difference of logits: %.2g", p, worst)
				if worst > 5e-4 {
					t.Errorf("%s logits differ by %g", p, worst)
				}
			}
		})
	}
}
