package checkpoint

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
)

// The largest values that a configuration may have. They are far above every published model and keep all products of two of
// them, and a layer's tensor sizes, within int64.
const (
	maxWidth      = 1 << 20
	maxVocabulary = 1 << 24
	maxLayers     = 1 << 12
	maxExperts    = 1 << 16
	maxHeads      = 1 << 14
	maxPositions  = 1 << 30

	maxConfigBytes = 4 << 20
)

// readLimited reads a small file whole; one that is larger than limit is an error.
func readLimited(path string, limit int64) ([]byte, error) {
	info, err := os.Stat(path)
	if err != nil {
		return nil, err
	}
	if !info.Mode().IsRegular() || info.Size() > limit {
		return nil, fmt.Errorf("%s: expected a regular file of at most %d bytes, found %s of %d bytes", path, limit, info.Mode(), info.Size())
	}
	return os.ReadFile(path)
}

// ReadConfig reads a model folder's config.json and, if there is one, generation_config.json; no weights need to be there.
func ReadConfig(dir string) (*Config, error) {
	c, _, err := readConfig(dir)
	return c, err
}

// readConfig reads config.json and generation_config.json (if there is one) of a folder; raw is config.json as it is.
func readConfig(dir string) (c *Config, raw []byte, err error) {
	path := filepath.Join(dir, "config.json")
	raw, err = readLimited(path, maxConfigBytes)
	if err != nil {
		err = fmt.Errorf("model folder %s: %w", dir, err)
		if errors.Is(err, fs.ErrNotExist) {
			err = missing{err}
		}
		return nil, nil, err
	}
	if c, err = ParseConfig(path, raw); err != nil {
		return nil, nil, err
	}
	path = filepath.Join(dir, "generation_config.json")
	generation, err := readLimited(path, maxConfigBytes)
	if errors.Is(err, fs.ErrNotExist) {
		return c, raw, nil
	}
	if err != nil {
		return nil, nil, err
	}
	return c, raw, c.addGeneration(path, generation)
}

// ParseConfig reads the text of a config.json; file names it in errors. Every value is checked: what it gives describes a model
// that can be computed, of bounded size.
func ParseConfig(file string, text []byte) (*Config, error) {
	k := &keys{file: file}
	if err := json.Unmarshal(text, &k.values); err != nil {
		return nil, fmt.Errorf("%s: not a JSON object: %w", file, err)
	}
	modelType := k.text("model_type")
	if k.err != nil {
		return nil, k.err
	}
	family, err := findFamily(file, modelType)
	if err != nil {
		return nil, err
	}
	k.defaults = family.defaults
	c := &Config{Family: family.modelType}
	readCommon(k, c)
	if k.err != nil {
		return nil, k.err
	}
	c.Layers = make([]LayerConfig, k.positive(maxLayers, "num_hidden_layers"))
	family.read(k, c)
	readTopK(k, c)
	c.Names = family.names.of(c)
	if k.err != nil {
		return nil, k.err
	}
	return c, nil
}

// readCommon reads the keys that mean the same in all families.
func readCommon(k *keys, c *Config) {
	c.BlockFP8 = readQuantization(k)
	c.Vocabulary = k.positive(maxVocabulary, "vocab_size")
	c.Hidden = k.positive(maxWidth, "hidden_size")
	c.Heads = k.positive(maxHeads, "num_attention_heads")
	c.KVHeads = c.Heads
	if !k.null("num_key_value_heads") {
		c.KVHeads = k.positive(maxHeads, "num_key_value_heads")
	}
	c.MaxPositions = k.positive(maxPositions, "max_position_embeddings")
	k.positive(maxLayers, "num_hidden_layers")
	if k.err != nil {
		return
	}
	if c.Heads%c.KVHeads != 0 {
		k.fail("num_key_value_heads", "%d does not divide the %d attention heads", c.KVHeads, c.Heads)
	}
	if _, present := k.raw("head_dim"); present {
		c.HeadDim = k.positive(maxWidth, "head_dim")
	} else if c.HeadDim = c.Hidden / c.Heads; c.Hidden%c.Heads != 0 {
		k.fail("hidden_size", "%d is not divisible by %d attention heads, and there is no head_dim", c.Hidden, c.Heads)
	}
	if c.HeadDim%2 != 0 {
		k.fail("head_dim", "must be even for rotary positions, found %d", c.HeadDim)
	}
	c.NormEpsilon = float32(k.number("rms_norm_eps"))
	c.RopeTheta = readRope(k)
	c.TiedEmbedding = k.flag("tie_word_embeddings")
	if activation := k.text("hidden_act"); activation != "silu" && activation != "swish" {
		k.fail("hidden_act", "expected silu, found %q", activation)
	}
	c.BOS, c.EOS = -1, nil
	readEnds(k, c)
}

// readRope gives the base of the rotary frequencies, from rope_parameters (transformers 5) or rope_theta. Scaled frequencies
// are refused: computing them plainly would give wrong text without a word.
func readRope(k *keys) float64 {
	theta := 0.0
	for _, key := range []string{"rope_parameters", "rope_scaling"} {
		inner := k.object(key)
		if inner == nil {
			continue
		}
		inner.defaults = map[string]any{"partial_rotary_factor": 1.0}
		for _, spelling := range []string{"rope_type", "type"} {
			if _, present := inner.raw(spelling); !present {
				continue
			}
			if kind := inner.text(spelling); kind != "default" && inner.err == nil {
				k.fail(key, "rope type %q is not supported; only default (unscaled) is", kind)
			}
		}
		if factor := inner.number("partial_rotary_factor"); factor != 1 && inner.err == nil {
			k.fail(key, "partial_rotary_factor %v is not supported; only 1 is", factor)
		}
		if _, present := inner.raw("rope_theta"); present {
			theta = inner.number("rope_theta")
		}
		if inner.err != nil && k.err == nil {
			k.err = inner.err
		}
	}
	if _, present := k.raw("partial_rotary_factor"); present {
		if factor := k.number("partial_rotary_factor"); factor != 1 {
			k.fail("partial_rotary_factor", "%v is not supported; only 1 is", factor)
		}
	}
	if theta != 0 {
		return theta
	}
	return k.number("rope_theta")
}

// readTopK checks the number of selected experts against the number of experts.
func readTopK(k *keys, c *Config) {
	c.TopK = k.positive(maxExperts, "num_experts_per_tok")
	sparse := slices.ContainsFunc(c.Layers, func(l LayerConfig) bool { return l.MoE })
	if sparse && c.TopK > c.Experts {
		k.fail("num_experts_per_tok", "%d of %d experts cannot be selected", c.TopK, c.Experts)
	}
}

// readEnds adds bos_token_id and eos_token_id of a configuration to c.
func readEnds(k *keys, c *Config) {
	if c.BOS < 0 {
		_, present := k.raw("bos_token_id")
		_, known := k.defaults["bos_token_id"].(int)
		if present || known && !k.null("bos_token_id") {
			c.BOS = k.tokenID("bos_token_id", k.integer("bos_token_id"), c.Vocabulary)
		}
	}
	ends := k.integers("eos_token_id")
	if id, known := k.defaults["eos_token_id"].(int); known && ends == nil && !k.null("eos_token_id") {
		ends = []int{id}
	}
	for _, id := range ends {
		c.EOS = append(c.EOS, k.tokenID("eos_token_id", id, c.Vocabulary))
	}
	slices.Sort(c.EOS)
	c.EOS = slices.Compact(c.EOS)
}

func (k *keys) tokenID(key string, id, vocabulary int) int {
	if id < 0 || id >= vocabulary {
		k.fail(key, "token id %d is not within the vocabulary of %d", id, vocabulary)
	}
	return id
}

// addGeneration adds what generation_config.json says about end tokens.
func (c *Config) addGeneration(file string, text []byte) error {
	k := &keys{file: file}
	if err := json.Unmarshal(text, &k.values); err != nil {
		return fmt.Errorf("%s: not a JSON object: %w", file, err)
	}
	readEnds(k, c)
	return k.err
}
