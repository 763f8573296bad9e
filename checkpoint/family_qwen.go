package checkpoint

import "fmt"

// What the Qwen families have in common: the rule for layers without experts, the window switch and the names below mlp.

// readQwenExperts reads the experts' numbers and which layers have them: layer i, unless mlp_only_layers names it, if i+1 is a
// multiple of decoder_sparse_step (and if there are experts at all).
func readQwenExperts(k *keys, c *Config) {
	c.Experts = k.integer("num_experts", "num_local_experts")
	if c.Experts < 0 || c.Experts > maxExperts {
		k.fail("num_experts", "must be from 0 to %d, found %d", maxExperts, c.Experts)
	}
	c.ExpertIntermediate = k.positive(maxWidth, "moe_intermediate_size")
	c.DenseIntermediate = k.positive(maxWidth, "intermediate_size")
	c.NormalizeTopK = k.flag("norm_topk_prob")
	step := k.positive(maxLayers, "decoder_sparse_step")
	dense := k.integers("mlp_only_layers")
	if k.err != nil {
		return
	}
	for i := range c.Layers {
		c.Layers[i].MoE = c.Experts > 0 && (i+1)%step == 0
	}
	for _, i := range dense {
		if i >= 0 && i < len(c.Layers) {
			c.Layers[i].MoE = false
		}
	}
}

// readQwenWindow gives the sliding window in positions; 0 if use_sliding_window is off or the window is null.
func readQwenWindow(k *keys) int {
	if !k.flag("use_sliding_window") || k.null("sliding_window") {
		return 0
	}
	return k.positive(maxPositions, "sliding_window")
}

func qwenNames() Names {
	return llamaNames(
		func(prefix string, names *LayerNames) {
			mlp := prefix + "mlp."
			names.Router = mlp + "gate.weight"
			names.DenseGate = mlp + "gate_proj.weight"
			names.DenseUp = mlp + "up_proj.weight"
			names.DenseDown = mlp + "down_proj.weight"
			names.SharedGateProj = mlp + "shared_expert.gate_proj.weight"
			names.SharedUpProj = mlp + "shared_expert.up_proj.weight"
			names.SharedDownProj = mlp + "shared_expert.down_proj.weight"
			names.SharedGateGate = mlp + "shared_expert_gate.weight"
		},
		func(layer, expert int) ExpertNames {
			prefix := fmt.Sprintf("model.layers.%d.mlp.experts.%d.", layer, expert)
			return ExpertNames{Gate: prefix + "gate_proj.weight", Up: prefix + "up_proj.weight", Down: prefix + "down_proj.weight"}
		})
}
