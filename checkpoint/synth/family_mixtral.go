package synth

import "errors"

func init() {
	shapes["mixtral"] = &shape{
		config: func(s *Spec) map[string]any {
			return map[string]any{
				"architectures":     []string{"MixtralForCausalLM"},
				"num_local_experts": s.Experts, "intermediate_size": s.ExpertIntermediate, "sliding_window": s.windowOrNull(),
			}
		},
		check: func(s *Spec) error {
			switch {
			case s.SharedIntermediate != 0:
				return errors.New("it has no shared expert (SharedIntermediate)")
			case s.sparseStep() != 1 || len(s.DenseLayers) > 0:
				return errors.New("all its layers have experts (SparseStep, DenseLayers)")
			case !s.NormalizeTopK:
				return errors.New("its top-k probabilities are always normalised (NormalizeTopK)")
			case s.AttentionBias:
				return errors.New("its attention has no biases (AttentionBias)")
			}
			return nil
		},
	}
	models["mixtral-8x7b"] = Spec{
		Family: "mixtral", Layers: 32, Vocabulary: 32000, Hidden: 4096, MaxPositions: 32768, Heads: 32, KVHeads: 8, HeadDim: 128,
		Experts: 8, TopK: 2, ExpertIntermediate: 14336, NormalizeTopK: true, RopeTheta: 1e6, NormEpsilon: 1e-5, Deviation: 0.02,
	}
	models["mixtral-8x22b"] = Spec{
		Family: "mixtral", Layers: 56, Vocabulary: 32768, Hidden: 6144, MaxPositions: 65536, Heads: 48, KVHeads: 8, HeadDim: 128,
		Experts: 8, TopK: 2, ExpertIntermediate: 16384, NormalizeTopK: true, RopeTheta: 1e6, NormEpsilon: 1e-5, Deviation: 0.02,
	}
}
