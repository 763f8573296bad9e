package checkpoint

import (
	"fmt"
	"maps"
	"slices"
	"strings"
)

// family is all that is particular to one architecture. A family is one file that registers one of these.
type family struct {
	modelType string         // model_type of config.json
	defaults  map[string]any // what transformers assumes where config.json lacks a key
	read      func(k *keys, c *Config)
	names     Names // every tensor that some model of the family has; Config leaves out what this model lacks
}

var families = map[string]*family{}

func register(f *family) {
	if families[f.modelType] != nil {
		panic("checkpoint: two families named " + f.modelType)
	}
	families[f.modelType] = f
}

// Families lists the known values of model_type, sorted.
func Families() []string { return slices.Sorted(maps.Keys(families)) }

func findFamily(file, modelType string) (*family, error) {
	f := families[modelType]
	if f == nil {
		return nil, &ConfigError{File: file, Key: "model_type",
			Problem: fmt.Sprintf("%q is not a known family; known: %s", modelType, strings.Join(Families(), ", "))}
	}
	return f, nil
}

// llamaNames are the tensor names that most families share; expert and feed-forward names are added by the family.
func llamaNames(layer func(prefix string, names *LayerNames), expert func(layer, expert int) ExpertNames) Names {
	return Names{
		Embedding: "model.embed_tokens.weight",
		FinalNorm: "model.norm.weight",
		LMHead:    "lm_head.weight",
		Layer: func(i int) LayerNames {
			prefix := fmt.Sprintf("model.layers.%d.", i)
			attention := prefix + "self_attn."
			names := LayerNames{
				InputNorm:         prefix + "input_layernorm.weight",
				PostAttentionNorm: prefix + "post_attention_layernorm.weight",
				Q:                 attention + "q_proj.weight",
				K:                 attention + "k_proj.weight",
				V:                 attention + "v_proj.weight",
				O:                 attention + "o_proj.weight",
				QBias:             attention + "q_proj.bias",
				KBias:             attention + "k_proj.bias",
				VBias:             attention + "v_proj.bias",
				OBias:             attention + "o_proj.bias",
				QNorm:             attention + "q_norm.weight",
				KNorm:             attention + "k_norm.weight",
			}
			layer(prefix, &names)
			return names
		},
		Expert: expert,
	}
}
