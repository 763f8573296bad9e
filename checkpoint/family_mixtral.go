package checkpoint

import "fmt"

// Mixtral: every layer has experts, the top-k probabilities always sum to 1, and one window holds for all layers.
func init() {
	register(&family{
		modelType: "mixtral",
		defaults: map[string]any{
			"vocab_size": 32000, "hidden_size": 4096, "intermediate_size": 14336, "num_hidden_layers": 32,
			"num_attention_heads": 32, "num_key_value_heads": 8, "max_position_embeddings": 131072,
			"num_local_experts": 8, "num_experts_per_tok": 2,
			"rms_norm_eps": 1e-5, "rope_theta": 1e6, "hidden_act": "silu", "tie_word_embeddings": false,
			"bos_token_id": 1, "eos_token_id": 2,
		},
		read: func(k *keys, c *Config) {
			c.Experts = k.positive(maxExperts, "num_local_experts", "num_experts")
			c.ExpertIntermediate = k.positive(maxWidth, "intermediate_size")
			c.NormalizeTopK = true
			window := 0
			if _, present := k.raw("sliding_window"); present {
				window = k.positive(maxPositions, "sliding_window")
			}
			for i := range c.Layers {
				c.Layers[i] = LayerConfig{MoE: true, SlidingWindow: window}
			}
		},
		names: llamaNames(
			func(prefix string, names *LayerNames) { names.Router = prefix + "block_sparse_moe.gate.weight" },
			func(layer, expert int) ExpertNames {
				prefix := fmt.Sprintf("model.layers.%d.block_sparse_moe.experts.%d.", layer, expert)
				return ExpertNames{Gate: prefix + "w1.weight", Up: prefix + "w3.weight", Down: prefix + "w2.weight"}
			}),
	})
}
