package synth

import (
	"fmt"
	"maps"
	"slices"
	"strings"
)

// models holds the shapes of released models; each family's file adds its own.
var models = map[string]Spec{}

// Models lists the names that Like knows, sorted.
func Models() []string { return slices.Sorted(maps.Keys(models)) }

// Like gives the shape of a released model, by its name in any case; the error lists the known ones.
func Like(name string) (Spec, error) {
	lower := strings.ToLower(name)
	s, known := models[lower]
	if !known {
		return Spec{}, fmt.Errorf("synth: unknown model %q; known: %s", name, strings.Join(Models(), ", "))
	}
	s.Name = lower
	return s, nil
}

// Tiny gives a small model of a family for tests: several groups of columns, widths that no power of two divides, a layer
// without experts where the family has such, and weights that give distinct routing and logits. It panics on an unknown family.
func Tiny(family string) Spec {
	s := Spec{
		Name: "tiny-" + family, Family: family, Layers: 3, Vocabulary: 512, Hidden: 192, MaxPositions: 512, Heads: 4, KVHeads: 2, HeadDim: 32,
		Experts: 8, TopK: 3, ExpertIntermediate: 160, NormalizeTopK: true, RopeTheta: 1e4, NormEpsilon: 1e-6, Seed: 1,
	}
	switch family {
	case "mixtral":
	case "qwen3_moe":
		s.DenseIntermediate, s.DenseLayers = 160, []int{1}
	case "qwen2_moe":
		s.DenseIntermediate, s.DenseLayers = 160, []int{1}
		s.SharedIntermediate, s.AttentionBias, s.NormalizeTopK = 96, true, false
	default:
		panic(fmt.Sprintf("synth: unknown family %q; known: %s", family, strings.Join(Families(), ", ")))
	}
	return s
}
