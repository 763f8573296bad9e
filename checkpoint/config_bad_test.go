package checkpoint

import (
	"encoding/json"
	"errors"
	"maps"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// changed gives a fixture's config.json with some keys replaced; a nil value is null.
func changed(t testing.TB, fixture string, keys map[string]any) []byte {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(tiny, fixture, "config.json"))
	if err != nil {
		t.Fatal(err)
	}
	var all map[string]any
	if err := json.Unmarshal(text, &all); err != nil {
		t.Fatal(err)
	}
	maps.Copy(all, keys)
	text, err = json.Marshal(all)
	if err != nil {
		t.Fatal(err)
	}
	return text
}

func TestBadConfigs(t *testing.T) {
	t.Parallel()
	type o = map[string]any
	for _, c := range []struct {
		fixture string
		keys    o
		want    string
	}{
		{"qwen3_moe", o{"model_type": "llama"}, `model_type: "llama" is not a known family; known: mixtral, qwen2_moe, qwen3_moe`},
		{"qwen3_moe", o{"model_type": nil}, "model_type: is missing"},
		{"qwen3_moe", o{"model_type": 7}, "model_type: expected a string, found 7"},
		{"qwen3_moe", o{"hidden_size": 0}, "hidden_size: must be from 1 to 1048576, found 0"},
		{"qwen3_moe", o{"hidden_size": -64}, "hidden_size: must be from 1"},
		{"qwen3_moe", o{"hidden_size": int64(1 << 40)}, "found 1099511627776"},
		{"qwen3_moe", o{"hidden_size": "64"}, `hidden_size: expected a whole number, found "64"`},
		{"qwen3_moe", o{"hidden_size": 64.5}, "hidden_size: expected a whole number, found 64.5"},
		{"qwen3_moe", o{"hidden_size": json.RawMessage("99999999999999999999")}, "hidden_size: expected a whole number"},
		{"qwen3_moe", o{"vocab_size": 1 << 30}, "vocab_size: must be from 1 to 16777216"},
		{"qwen3_moe", o{"num_hidden_layers": 5000}, "num_hidden_layers: must be from 1 to 4096, found 5000"},
		{"qwen3_moe", o{"num_key_value_heads": 3}, "num_key_value_heads: 3 does not divide the 4 attention heads"},
		{"qwen3_moe", o{"num_key_value_heads": 8}, "8 does not divide"},
		{"qwen3_moe", o{"head_dim": 33}, "head_dim: must be even for rotary positions, found 33"},
		{"mixtral", o{"num_attention_heads": 3, "num_key_value_heads": 3}, "hidden_size: 64 is not divisible by 3 attention heads"},
		{"qwen3_moe", o{"num_experts_per_tok": 17}, "num_experts_per_tok: 17 of 16 experts cannot be selected"},
		{"qwen3_moe", o{"num_experts_per_tok": 0}, "num_experts_per_tok: must be from 1"},
		{"qwen3_moe", o{"num_experts": 8}, "num_local_experts: is 16, but num_experts, which means the same, is 8"},
		{"qwen2_moe", o{"num_experts": 1 << 20}, "num_experts: must be from 0 to 65536, found 1048576"},
		{"qwen3_moe", o{"hidden_act": "gelu"}, `hidden_act: expected silu, found "gelu"`},
		{"qwen3_moe", o{"rms_norm_eps": 0}, "rms_norm_eps: expected a positive number, found 0"},
		{"qwen3_moe", o{"rms_norm_eps": "x"}, `rms_norm_eps: expected a positive number, found "x"`},
		{"qwen3_moe", o{"rope_theta": -1}, "rope_theta: expected a positive number, found -1"},
		{"qwen3_moe", o{"rope_scaling": o{"type": "yarn", "factor": 4}}, `rope_scaling: rope type "yarn" is not supported`},
		{"qwen3_moe", o{"rope_scaling": o{"rope_type": "linear"}}, `rope_scaling: rope type "linear" is not supported`},
		{"qwen3_moe", o{"rope_scaling": "yarn"}, `rope_scaling: expected an object, found "yarn"`},
		{"qwen3_moe", o{"rope_parameters": o{"rope_type": "default", "partial_rotary_factor": 0.5}}, "partial_rotary_factor 0.5 is not supported"},
		{"qwen3_moe", o{"partial_rotary_factor": 0.5}, "partial_rotary_factor: 0.5 is not supported"},
		{"qwen3_moe", o{"tie_word_embeddings": 1}, "tie_word_embeddings: expected true or false, found 1"},
		{"qwen3_moe", o{"mlp_only_layers": "all"}, `mlp_only_layers: expected a whole number or a list of them, found "all"`},
		{"qwen3_moe", o{"decoder_sparse_step": 0}, "decoder_sparse_step: must be from 1"},
		{"qwen3_moe", o{"eos_token_id": []int{2, 512}}, "eos_token_id: token id 512 is not within the vocabulary of 512"},
		{"qwen3_moe", o{"bos_token_id": -1}, "bos_token_id: token id -1"},
		{"qwen3_moe", o{"quantization_config": o{"quant_method": "fp8"}}, "quantization_config: the weights are quantised (fp8:"},
		{"qwen3_moe", o{"quantization_config": 3}, "quantization_config: "},
		{"qwen2_moe", o{"shared_expert_intermediate_size": 0}, "shared_expert_intermediate_size: must be from 1"},
		{"qwen2_moe", o{"layer_types": []string{"full_attention"}}, "layer_types: has 1 entries for 4 layers"},
		{"qwen2_moe", o{"layer_types": []string{"full_attention", "linear", "full_attention", "full_attention"}}, `layer 1: expected full_attention or sliding_attention, found "linear"`},
		{"qwen2_moe", o{"layer_types": []string{"sliding_attention", "full_attention", "full_attention", "full_attention"}}, "layer 0 has sliding_attention, but there is no window"},
		{"mixtral", o{"sliding_window": 0}, "sliding_window: must be from 1"},
		{"mixtral", o{"sliding_window": "12"}, "sliding_window: expected a whole number"},
	} {
		_, err := ParseConfig("some/config.json", changed(t, c.fixture, c.keys))
		var typed *ConfigError
		if !errors.As(err, &typed) || !strings.Contains(err.Error(), c.want) || !strings.HasPrefix(err.Error(), "some/config.json: ") {
			t.Errorf("%v: expected %q, got %v", c.keys, c.want, err)
		}
	}
	for _, text := range []string{"", "{", "[]", `"x"`, "null"} {
		if _, err := ParseConfig("some/config.json", []byte(text)); err == nil || !strings.HasPrefix(err.Error(), "some/config.json: ") {
			t.Errorf("%q: %v", text, err)
		}
	}
}

func FuzzConfig(f *testing.F) {
	for _, fixture := range []string{"qwen3_moe", "qwen2_moe", "mixtral"} {
		f.Add(changed(f, fixture, nil))
		f.Add(changed(f, fixture, map[string]any{"sliding_window": 12, "use_sliding_window": true, "eos_token_id": []int{1, 2}}))
	}
	f.Fuzz(func(t *testing.T, text []byte) {
		c, err := ParseConfig("fuzz", text)
		if err != nil {
			return
		}
		// An accepted configuration lists tensors of positive size; the first thousand are enough.
		n := 0
		for name, shape := range c.Tensors() {
			if name == "" || (TensorInfo{DType: F32, Shape: shape}).Bytes() <= 0 {
				t.Fatalf("%q %v", name, shape)
			}
			if n++; n == 1000 {
				break
			}
		}
		_ = c.addGeneration("fuzz", text)
	})
}

func FuzzIndex(f *testing.F) {
	f.Add([]byte(`{"metadata":{"total_size":1},"weight_map":{"a":"model-00001-of-00002.safetensors","b":"model-00002-of-00002.safetensors"}}`))
	f.Add([]byte(`{"weight_map":{"a":"../b"}}`))
	f.Fuzz(func(t *testing.T, text []byte) {
		x, err := parseIndex("fuzz", text)
		if err != nil {
			return
		}
		for _, shard := range x.shards {
			if shard != filepath.Base(shard) || shard == "." || shard == ".." {
				t.Fatalf("shard %q leaves the folder", shard)
			}
		}
	})
}
