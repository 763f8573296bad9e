package checkpoint

// Qwen3-MoE: RMSNorm of each query and key head, no shared expert, attention biases only if attention_bias asks for them.
func init() {
	register(&family{
		modelType: "qwen3_moe",
		defaults: map[string]any{
			"vocab_size": 151936, "hidden_size": 2048, "intermediate_size": 6144, "num_hidden_layers": 24,
			"num_attention_heads": 32, "num_key_value_heads": 4, "max_position_embeddings": 32768,
			"num_experts": 128, "num_experts_per_tok": 8, "moe_intermediate_size": 768,
			"decoder_sparse_step": 1, "norm_topk_prob": false, "attention_bias": false,
			"use_sliding_window": false, "sliding_window": 4096,
			"rms_norm_eps": 1e-6, "rope_theta": 1e4, "hidden_act": "silu", "tie_word_embeddings": false,
		},
		read: func(k *keys, c *Config) {
			readQwenExperts(k, c)
			c.QKNorm = true
			c.QKVBias = k.flag("attention_bias")
			c.OutputBias = c.QKVBias
			window := readQwenWindow(k)
			for i := range c.Layers {
				c.Layers[i].SlidingWindow = window
			}
		},
		names: qwenNames(),
	})
}
