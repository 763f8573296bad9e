package synth

import (
	"math"

	"github.com/moepool/moepool/checkpoint"
)

// fills decides the values of each tensor by what it is for.
func (s *Spec) fills(c *checkpoint.Config) func(name string, shape []int) fill {
	bias, matrix := fill{deviation: s.Deviation}, func(columns int) fill { return fill{deviation: s.Deviation} }
	norm := fill{mean: 1}
	special := map[string]fill{}
	if s.Deviation == 0 {
		bias, norm = fill{deviation: 0.125}, fill{mean: 1, deviation: 0.125}
		matrix = func(columns int) fill { return fill{deviation: 1 / math.Sqrt(float64(columns))} }
		// Logits and router scores get a deviation of 2: neither flat nor saturated.
		sharp := fill{deviation: 2 / math.Sqrt(float64(c.Hidden))}
		special[c.Embedding] = fill{deviation: 1}
		special[c.LMHead] = sharp // after the embedding, which it is if the two are tied
		for i := range c.Layers {
			special[c.Layer(i).Router] = sharp
		}
	}
	for i := range c.Layers {
		n := c.Layer(i)
		for _, name := range []string{n.QBias, n.KBias, n.VBias, n.OBias} {
			special[name] = bias
		}
	}
	return func(name string, shape []int) fill {
		if f, found := special[name]; found {
			return f
		}
		if len(shape) == 1 {
			return norm
		}
		return matrix(shape[len(shape)-1])
	}
}

// routerFactors gives the factors of the rows of each router by its tensor's name; nil without a skew.
func (s *Spec) routerFactors(c *checkpoint.Config) map[string][]float64 {
	if s.RouterSkew == 0 {
		return nil
	}
	factors := map[string][]float64{}
	for i := range c.Layers {
		if name := c.Layer(i).Router; name != "" {
			factors[name] = skewFactors(s.Seed, name, c.Experts, s.RouterSkew)
		}
	}
	return factors
}
