package checkpoint

// Qwen1.5-MoE and Qwen2-MoE: biases on q, k and v, and a shared expert with a gate beside the routed ones.
func init() {
	register(&family{
		modelType: "qwen2_moe",
		defaults: map[string]any{
			"vocab_size": 151936, "hidden_size": 2048, "intermediate_size": 5632, "num_hidden_layers": 24,
			"num_attention_heads": 16, "num_key_value_heads": 16, "max_position_embeddings": 32768,
			"num_experts": 60, "num_experts_per_tok": 4, "moe_intermediate_size": 1408, "shared_expert_intermediate_size": 5632,
			"decoder_sparse_step": 1, "norm_topk_prob": false, "qkv_bias": true,
			"use_sliding_window": false, "sliding_window": 4096, "max_window_layers": 28,
			"rms_norm_eps": 1e-6, "rope_theta": 1e4, "hidden_act": "silu", "tie_word_embeddings": false,
		},
		read: func(k *keys, c *Config) {
			readQwenExperts(k, c)
			c.SharedIntermediate = k.positive(maxWidth, "shared_expert_intermediate_size")
			c.SharedGate = true
			c.QKVBias = k.flag("qkv_bias")
			readQwen2Window(k, c)
		},
		names: qwenNames(),
	})
}

// readQwen2Window reads which layers see a window only: layer_types says it, else the rule of transformers' Qwen2MoeConfig: the
// even layers below max_window_layers.
func readQwen2Window(k *keys, c *Config) {
	window := readQwenWindow(k)
	types := k.texts("layer_types")
	if types != nil && len(types) != len(c.Layers) {
		k.fail("layer_types", "has %d entries for %d layers", len(types), len(c.Layers))
		return
	}
	limit := k.integer("max_window_layers")
	for i := range c.Layers {
		sliding := window > 0 && i%2 == 0 && i < limit
		if types != nil {
			switch types[i] {
			case "full_attention":
				sliding = false
			case "sliding_attention":
				sliding = true
			default:
				k.fail("layer_types", "layer %d: expected full_attention or sliding_attention, found %q", i, types[i])
			}
			if sliding && window == 0 {
				k.fail("layer_types", "layer %d has sliding_attention, but there is no window (use_sliding_window, sliding_window)", i)
			}
		}
		if sliding {
			c.Layers[i].SlidingWindow = window
		}
	}
}
