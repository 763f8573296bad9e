package checkpoint

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
)

const tiny = "../testdata/tiny"

// tinyFolders are all fixture folders of the known families.
func tinyFolders(t *testing.T) []string {
	t.Helper()
	var folders []string
	for _, pattern := range []string{"qwen3_moe*", "qwen2_moe*", "mixtral*"} {
		found, err := filepath.Glob(filepath.Join(tiny, pattern))
		if err != nil || len(found) == 0 {
			t.Fatalf("no fixtures match %s (%v)", pattern, err)
		}
		folders = append(folders, found...)
	}
	return folders
}

func parseFile(t *testing.T, path string) *Config {
	t.Helper()
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	c, err := ParseConfig(path, text)
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// tensorList evaluates the name functions, which cannot be compared.
func tensorList(c *Config) []TensorInfo {
	var list []TensorInfo
	for name, shape := range c.Tensors() {
		list = append(list, TensorInfo{Name: name, Shape: shape})
	}
	return list
}

func TestBothSpellingsAreEqual(t *testing.T) {
	t.Parallel()
	for _, folder := range tinyFolders(t) {
		old, new := parseFile(t, filepath.Join(folder, "config.json")), (*Config)(nil)
		if folder == fp8Model { // transformers 5 wrote it: it has one spelling
			continue
		}
		new = parseFile(t, filepath.Join(folder, "config.v5.json"))
		if diff := cmp.Diff(old, new, cmpopts.IgnoreFields(Names{}, "Layer", "Expert")); diff != "" {
			t.Errorf("%s: config.json and config.v5.json differ:\n%s", folder, diff)
		}
		if diff := cmp.Diff(tensorList(old), tensorList(new)); diff != "" {
			t.Errorf("%s: tensors differ:\n%s", folder, diff)
		}
	}
}

// A config.json that says nothing but its family gives what transformers assumes.
func TestDefaults(t *testing.T) {
	t.Parallel()
	moe := func(n int, window int) []LayerConfig {
		layers := make([]LayerConfig, n)
		for i := range layers {
			layers[i] = LayerConfig{MoE: true, SlidingWindow: window}
		}
		return layers
	}
	for _, want := range []Config{
		{Family: "mixtral", Vocabulary: 32000, Hidden: 4096, Heads: 32, KVHeads: 8, HeadDim: 128, MaxPositions: 131072, NormEpsilon: 1e-5,
			RopeTheta: 1e6, Layers: moe(32, 0), Experts: 8, TopK: 2, ExpertIntermediate: 14336, NormalizeTopK: true, BOS: 1, EOS: []int{2}},
		{Family: "qwen3_moe", Vocabulary: 151936, Hidden: 2048, Heads: 32, KVHeads: 4, HeadDim: 64, MaxPositions: 32768, NormEpsilon: 1e-6,
			RopeTheta: 1e4, QKNorm: true, Layers: moe(24, 0), DenseIntermediate: 6144, Experts: 128, TopK: 8, ExpertIntermediate: 768, BOS: -1},
		{Family: "qwen2_moe", Vocabulary: 151936, Hidden: 2048, Heads: 16, KVHeads: 16, HeadDim: 128, MaxPositions: 32768, NormEpsilon: 1e-6,
			RopeTheta: 1e4, QKVBias: true, Layers: moe(24, 0), DenseIntermediate: 5632, Experts: 60, TopK: 4, ExpertIntermediate: 1408,
			SharedIntermediate: 5632, SharedGate: true, BOS: -1},
	} {
		got, err := ParseConfig("config.json", []byte(`{"model_type":"`+want.Family+`"}`))
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(&want, got, cmpopts.IgnoreFields(Config{}, "Names"), cmpopts.EquateEmpty()); diff != "" {
			t.Errorf("%s:\n%s", want.Family, diff)
		}
	}
}

func TestVariants(t *testing.T) {
	t.Parallel()
	type o = map[string]any
	parse := func(fixture string, keys o) *Config {
		c, err := ParseConfig("config.json", changed(t, fixture, keys))
		if err != nil {
			t.Fatal(err)
		}
		return c
	}
	windows := func(c *Config) (list []int) {
		for _, l := range c.Layers {
			list = append(list, l.SlidingWindow)
		}
		return list
	}
	sparse := func(c *Config) (list []bool) {
		for _, l := range c.Layers {
			list = append(list, l.MoE)
		}
		return list
	}
	for name, pair := range map[string][2]any{
		"mixtral window":     {windows(parse("mixtral", o{"sliding_window": 9})), []int{9, 9, 9, 9}},
		"qwen3 window":       {windows(parse("qwen3_moe", o{"sliding_window": 9, "use_sliding_window": true})), []int{9, 9, 9, 9}},
		"qwen3 window off":   {windows(parse("qwen3_moe", o{"sliding_window": 9})), []int{0, 0, 0, 0}},
		"qwen3 window null":  {windows(parse("qwen3_moe", o{"sliding_window": nil, "use_sliding_window": true})), []int{0, 0, 0, 0}},
		"qwen2 window":       {windows(parse("qwen2_moe", o{"sliding_window": 9, "use_sliding_window": true})), []int{9, 0, 9, 0}},
		"qwen2 window limit": {windows(parse("qwen2_moe", o{"sliding_window": 9, "use_sliding_window": true, "max_window_layers": 2})), []int{9, 0, 0, 0}},
		"qwen2 layer types": {windows(parse("qwen2_moe", o{"sliding_window": 9, "use_sliding_window": true,
			"layer_types": []string{"full_attention", "sliding_attention", "sliding_attention", "full_attention"}})), []int{0, 9, 9, 0}},
		"step":          {sparse(parse("qwen3_moe", o{"decoder_sparse_step": 2})), []bool{false, true, false, true}},
		"only":          {sparse(parse("qwen3_moe", o{"mlp_only_layers": []int{0, 3, 99}})), []bool{false, true, true, false}},
		"dense mix":     {sparse(parse("qwen2_moe_dense_mix", nil)), []bool{false, true, false, false}},
		"no experts":    {sparse(parse("qwen2_moe", o{"num_experts": 0})), []bool{false, false, false, false}},
		"heads":         {parse("mixtral", o{"num_key_value_heads": nil}).KVHeads, 4},
		"head size":     {parse("mixtral", o{"head_dim": 24}).HeadDim, 24},
		"ends":          {parse("mixtral", o{"eos_token_id": []int{7, 2, 7}}).EOS, []int{2, 7}},
		"no ends":       {len(parse("mixtral", o{"eos_token_id": nil}).EOS), 0},
		"no beginning":  {parse("mixtral", o{"bos_token_id": nil}).BOS, -1},
		"tied":          {parse("mixtral", o{"tie_word_embeddings": true}).LMHead, "model.embed_tokens.weight"},
		"untied":        {parse("mixtral", nil).LMHead, "lm_head.weight"},
		"o bias":        {parse("qwen3_moe", o{"attention_bias": true}).Layer(1).OBias, "model.layers.1.self_attn.o_proj.bias"},
		"no bias":       {parse("qwen2_moe", o{"qkv_bias": false}).Layer(1).QBias, ""},
		"no o bias":     {parse("qwen2_moe", nil).Layer(1).OBias, ""},
		"no norm":       {parse("qwen2_moe", nil).Layer(1).QNorm, ""},
		"plain scaling": {parse("qwen3_moe", o{"rope_scaling": o{"type": "default"}}).RopeTheta, 1e4},
		"inner theta":   {parse("qwen3_moe", o{"rope_parameters": o{"rope_theta": 5e5}}).RopeTheta, 5e5},
	} {
		if diff := cmp.Diff(pair[1], pair[0]); diff != "" {
			t.Errorf("%s:\n%s", name, diff)
		}
	}
}

func TestGenerationEnds(t *testing.T) {
	t.Parallel()
	c := parseFile(t, filepath.Join(tiny, "mixtral", "config.json"))
	if err := c.addGeneration("generation_config.json", []byte(`{"eos_token_id":[5,2,3]}`)); err != nil || !cmp.Equal(c.EOS, []int{2, 3, 5}) {
		t.Errorf("%v, %v", c.EOS, err)
	}
	for _, text := range []string{`{`, `{"eos_token_id":"x"}`, `{"eos_token_id":512}`} {
		if err := c.addGeneration("generation_config.json", []byte(text)); err == nil {
			t.Errorf("%s: no error", text)
		}
	}
}
