package synth

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/moepool/moepool/checkpoint"
)

// Spec is the shape of a model and how its weights are made up. Start from Like or Tiny and change what you need.
type Spec struct {
	Name   string // of the model that it resembles
	Family string // model_type of config.json

	Layers, Vocabulary, Hidden, MaxPositions int
	Heads, KVHeads, HeadDim                  int
	Experts, TopK, ExpertIntermediate        int
	DenseIntermediate                        int   // layers without experts (Qwen families)
	SharedIntermediate                       int   // the shared expert (qwen2_moe)
	SparseStep                               int   // every SparseStep-th layer has experts; 0 is 1 (Qwen families)
	DenseLayers                              []int // layers without experts whatever SparseStep says (Qwen families)
	SlidingWindow                            int   // positions; 0 is none

	NormalizeTopK bool // always true for mixtral
	TiedEmbedding bool
	AttentionBias bool // q, k, v and, in qwen3_moe, o; mixtral has none
	RopeTheta     float64
	NormEpsilon   float64

	DType      checkpoint.DType // BF16 (also if ""), F16 or F32
	ShardBytes int64            // most bytes of tensors in one file; 0 is 4 GiB
	Seed       uint64

	// Deviation is the standard deviation of all weights; norms are 1. Zero asks for weights that keep activations near 1 in a
	// model of any size and give distinct routing and logits: 1/√columns, with norms and biases that vary too.
	Deviation float64

	// RouterSkew makes some experts more popular than others, as trained routers do: the norms of a router's rows are
	// log-normal, with this deviation of their logarithms (0 to 4). Zero leaves all rows alike. See skewFactors.
	RouterSkew float64
}

const defaultShardBytes = 4 << 30

// shape holds what a family does with a Spec.
type shape struct {
	config func(s *Spec) map[string]any // the keys of config.json that only this family has
	check  func(s *Spec) error          // fields that the family cannot express
}

var shapes = map[string]*shape{}

// Families lists the families that can be written, sorted.
func Families() []string { return slices.Sorted(maps.Keys(shapes)) }

// Config is what package checkpoint understands of the model's configuration.
func (s *Spec) Config() (*checkpoint.Config, error) {
	_, c, err := s.config()
	return c, err
}

// config gives config.json in the spelling of released checkpoints, and what package checkpoint understands of it.
func (s *Spec) config() ([]byte, *checkpoint.Config, error) {
	family := shapes[s.Family]
	if family == nil {
		return nil, nil, fmt.Errorf("synth: unknown family %q; known: %s", s.Family, strings.Join(Families(), ", "))
	}
	if err := family.check(s); err != nil {
		return nil, nil, fmt.Errorf("synth: %s: %w", s.Family, err)
	}
	if !s.dtype().Readable() {
		return nil, nil, fmt.Errorf("synth: element type %q; valid are BF16, F16 and F32", s.DType)
	}
	if s.Deviation < 0 || s.ShardBytes < 0 {
		return nil, nil, fmt.Errorf("synth: Deviation (%v) and ShardBytes (%d) must not be negative", s.Deviation, s.ShardBytes)
	}
	if !(s.RouterSkew >= 0 && s.RouterSkew <= maxSkew) {
		return nil, nil, fmt.Errorf("synth: RouterSkew (%v) must be from 0 to %d", s.RouterSkew, maxSkew)
	}
	tokens, err := tokensFor(s.Vocabulary)
	if err != nil {
		return nil, nil, err
	}
	dtypes := map[checkpoint.DType]string{checkpoint.BF16: "bfloat16", checkpoint.F16: "float16", checkpoint.F32: "float32"}
	keys := map[string]any{
		"model_type": s.Family, "torch_dtype": dtypes[s.dtype()], "hidden_act": "silu", "rope_scaling": nil,
		"vocab_size": s.Vocabulary, "hidden_size": s.Hidden, "num_hidden_layers": s.Layers,
		"num_attention_heads": s.Heads, "num_key_value_heads": s.KVHeads, "head_dim": s.HeadDim,
		"max_position_embeddings": s.MaxPositions, "rope_theta": s.RopeTheta, "rms_norm_eps": s.NormEpsilon,
		"num_experts_per_tok": s.TopK, "tie_word_embeddings": s.TiedEmbedding,
		"bos_token_id": tokens.bos, "eos_token_id": tokens.eos,
	}
	maps.Copy(keys, family.config(s))
	text, err := json.MarshalIndent(keys, "", "  ") // keys are sorted: the same bytes each time
	if err != nil {
		return nil, nil, err
	}
	c, err := checkpoint.ParseConfig("synth: config.json", text)
	return text, c, err
}

func (s *Spec) dtype() checkpoint.DType {
	if s.DType == "" {
		return checkpoint.BF16
	}
	return s.DType
}

func (s *Spec) sparseStep() int { return max(s.SparseStep, 1) }

func (s *Spec) shardBytes() int64 {
	if s.ShardBytes == 0 {
		return defaultShardBytes
	}
	return s.ShardBytes
}

// windowOrNull gives the sliding window as config.json spells it.
func (s *Spec) windowOrNull() any {
	if s.SlidingWindow == 0 {
		return nil
	}
	return s.SlidingWindow
}

// denseLayers gives mlp_only_layers, which is a list even if it is empty.
func (s *Spec) denseLayers() []int { return append([]int{}, s.DenseLayers...) }

// Size gives the bytes of all tensors and their number.
func (s *Spec) Size() (bytes int64, tensors int, err error) {
	_, c, err := s.config()
	if err != nil {
		return 0, 0, err
	}
	shards, err := planShards(s, c)
	if err != nil {
		return 0, 0, err
	}
	for _, file := range shards {
		bytes += file.bytes
		tensors += len(file.tensors)
	}
	return bytes, tensors, nil
}
