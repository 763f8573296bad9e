package synth_test

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/moepool/moepool/checkpoint"
	"github.com/moepool/moepool/checkpoint/synth"
)

func TestRefusals(t *testing.T) {
	t.Parallel()
	for want, change := range map[string]func(*synth.Spec){
		`unknown family "llama"; known: mixtral, qwen2_moe, qwen3_moe`: func(s *synth.Spec) { s.Family = "llama" },
		"a vocabulary of 256 is too small":                             func(s *synth.Spec) { s.Vocabulary = 256 },
		`element type "I8"; valid are BF16, F16 and F32`:               func(s *synth.Spec) { s.DType = "I8" },
		"Deviation (-1)": func(s *synth.Spec) { s.Deviation = -1 },
		"its top-k probabilities are always normalised":   func(s *synth.Spec) { s.NormalizeTopK = false },
		"its attention has no biases":                     func(s *synth.Spec) { s.AttentionBias = true },
		"all its layers have experts":                     func(s *synth.Spec) { s.SparseStep = 2 },
		"it has no shared expert":                         func(s *synth.Spec) { s.SharedIntermediate = 32 },
		"num_experts_per_tok: 9 of 8 experts":             func(s *synth.Spec) { s.TopK = 9 },
		"hidden_size: must be from 1":                     func(s *synth.Spec) { s.Hidden = 0 },
		"num_key_value_heads: 3 does not divide":          func(s *synth.Spec) { s.KVHeads = 3 },
		"sliding_window: must be from 1":                  func(s *synth.Spec) { s.SlidingWindow = -1 },
		"rope_theta: expected a positive number":          func(s *synth.Spec) { s.RopeTheta = 0 },
		"the model is larger than 1125899906842624 bytes": func(s *synth.Spec) { s.Hidden, s.ExpertIntermediate, s.Layers = 1<<20, 1<<20, 999 },
		"or has more than 262144 tensors":                 func(s *synth.Spec) { s.Experts, s.Layers = 1<<15, 999 },
		"GB are available":                                func(s *synth.Spec) { s.Hidden, s.ExpertIntermediate, s.Layers = 1<<20, 1<<20, 9 },
	} {
		s := synth.Tiny("mixtral")
		change(&s)
		dir := filepath.Join(t.TempDir(), "model")
		err := synth.Write(dir, s, func(done, total int64) { panic("a refused model is being written") })
		if err == nil || !strings.Contains(err.Error(), want) || !strings.HasPrefix(err.Error(), "synth: ") {
			t.Errorf("expected %q, got %v", want, err)
		}
	}
	if _, err := synth.Like("gpt-5"); err == nil || !strings.Contains(err.Error(), "qwen3-30b-a3b") {
		t.Errorf("%v", err)
	}
}

func TestAFullFolderIsLeftAlone(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "config.json"), []byte("mine"), 0o644); err != nil {
		t.Fatal(err)
	}
	if err := synth.Write(dir, synth.Tiny("mixtral"), nil); err == nil || !strings.Contains(err.Error(), "is not empty (it holds config.json)") {
		t.Errorf("%v", err)
	}
	if text, err := os.ReadFile(filepath.Join(dir, "config.json")); err != nil || string(text) != "mine" {
		t.Errorf("%q, %v", text, err)
	}
}

func TestCancelLeavesNothing(t *testing.T) {
	t.Parallel()
	dir := filepath.Join(t.TempDir(), "model")
	ctx, cancel := context.WithCancel(context.Background())
	s := synth.Tiny("qwen3_moe")
	s.ShardBytes = 500_000
	err := synth.WriteContext(ctx, dir, s, func(done, total int64) {
		if done > total/2 {
			cancel()
		}
	})
	if !errors.Is(err, context.Canceled) {
		t.Errorf("%v", err)
	}
	if entries, err := os.ReadDir(dir); err != nil || len(entries) != 0 {
		t.Errorf("left behind: %v, %v", entries, err)
	}
}

func TestVariants(t *testing.T) {
	t.Parallel()
	s := synth.Tiny("qwen2_moe")
	s.SparseStep, s.DenseLayers, s.Layers = 2, nil, 4
	s.SlidingWindow, s.TiedEmbedding, s.Vocabulary = 24, true, 300
	c := write(t, s).Config()
	for i, want := range []checkpoint.LayerConfig{{SlidingWindow: 24}, {MoE: true}, {SlidingWindow: 24}, {MoE: true}} {
		if c.Layers[i] != want {
			t.Errorf("layer %d: %+v", i, c.Layers[i])
		}
	}
	if !c.TiedEmbedding || c.BOS != 256 || len(c.EOS) != 1 || c.EOS[0] != 256 {
		t.Errorf("%+v", c)
	}
}
