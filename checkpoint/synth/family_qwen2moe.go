package synth

import "errors"

func init() {
	shapes["qwen2_moe"] = &shape{
		config: func(s *Spec) map[string]any {
			return map[string]any{
				"architectures": []string{"Qwen2MoeForCausalLM"},
				"num_experts":   s.Experts, "moe_intermediate_size": s.ExpertIntermediate, "intermediate_size": s.DenseIntermediate,
				"shared_expert_intermediate_size": s.SharedIntermediate,
				"norm_topk_prob":                  s.NormalizeTopK, "decoder_sparse_step": s.sparseStep(), "mlp_only_layers": s.denseLayers(),
				"qkv_bias": s.AttentionBias, "use_sliding_window": s.SlidingWindow > 0, "sliding_window": s.windowOrNull(), "max_window_layers": s.Layers,
			}
		},
		check: func(s *Spec) error {
			if s.SharedIntermediate == 0 {
				return errors.New("it needs a shared expert (SharedIntermediate)")
			}
			return nil
		},
	}
	models["qwen2-57b-a14b"] = Spec{
		Family: "qwen2_moe", Layers: 28, Vocabulary: 151936, Hidden: 3584, MaxPositions: 131072, Heads: 28, KVHeads: 4, HeadDim: 128,
		Experts: 64, TopK: 8, ExpertIntermediate: 2560, DenseIntermediate: 18944, SharedIntermediate: 20480, AttentionBias: true,
		RopeTheta: 1e6, NormEpsilon: 1e-6, Deviation: 0.02,
	}
	models["qwen1.5-moe-a2.7b"] = Spec{
		Family: "qwen2_moe", Layers: 24, Vocabulary: 151936, Hidden: 2048, MaxPositions: 8192, Heads: 16, KVHeads: 16, HeadDim: 128,
		Experts: 60, TopK: 4, ExpertIntermediate: 1408, DenseIntermediate: 5632, SharedIntermediate: 5632, AttentionBias: true,
		RopeTheta: 1e6, NormEpsilon: 1e-6, Deviation: 0.02,
	}
}
