package synth

import "errors"

func init() {
	shapes["qwen3_moe"] = &shape{
		config: func(s *Spec) map[string]any {
			return map[string]any{
				"architectures": []string{"Qwen3MoeForCausalLM"},
				"num_experts":   s.Experts, "moe_intermediate_size": s.ExpertIntermediate, "intermediate_size": s.DenseIntermediate,
				"norm_topk_prob": s.NormalizeTopK, "decoder_sparse_step": s.sparseStep(), "mlp_only_layers": s.denseLayers(),
				"attention_bias": s.AttentionBias, "use_sliding_window": s.SlidingWindow > 0, "sliding_window": s.windowOrNull(),
			}
		},
		check: func(s *Spec) error {
			if s.SharedIntermediate != 0 {
				return errors.New("it has no shared expert (SharedIntermediate)")
			}
			return nil
		},
	}
	models["qwen3-30b-a3b"] = Spec{
		Family: "qwen3_moe", Layers: 48, Vocabulary: 151936, Hidden: 2048, MaxPositions: 40960, Heads: 32, KVHeads: 4, HeadDim: 128,
		Experts: 128, TopK: 8, ExpertIntermediate: 768, DenseIntermediate: 6144, NormalizeTopK: true,
		RopeTheta: 1e6, NormEpsilon: 1e-6, Deviation: 0.02,
	}
	models["qwen3-235b-a22b"] = Spec{
		Family: "qwen3_moe", Layers: 94, Vocabulary: 151936, Hidden: 4096, MaxPositions: 40960, Heads: 64, KVHeads: 4, HeadDim: 128,
		Experts: 128, TopK: 8, ExpertIntermediate: 1536, DenseIntermediate: 12288, NormalizeTopK: true,
		RopeTheta: 1e6, NormEpsilon: 1e-6, Deviation: 0.02,
	}
}
