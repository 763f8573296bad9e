package checkpoint

import "iter"

// of keeps the names that a model with this configuration has, so that "" means absent.
func (all Names) of(c *Config) Names {
	names := all
	if c.TiedEmbedding {
		names.LMHead = names.Embedding
	}
	layers, qkNorm, qkvBias, outputBias, shared, sharedGate := c.Layers, c.QKNorm, c.QKVBias, c.OutputBias, c.SharedIntermediate > 0, c.SharedGate
	names.Layer = func(i int) LayerNames {
		n := all.Layer(i)
		if !qkvBias {
			n.QBias, n.KBias, n.VBias = "", "", ""
		}
		if !outputBias {
			n.OBias = ""
		}
		if !qkNorm {
			n.QNorm, n.KNorm = "", ""
		}
		if layers[i].MoE {
			n.DenseGate, n.DenseUp, n.DenseDown = "", "", ""
		} else {
			n.Router = ""
		}
		if !shared || !layers[i].MoE {
			n.SharedGateProj, n.SharedUpProj, n.SharedDownProj, n.SharedGateGate = "", "", "", ""
		}
		if !sharedGate {
			n.SharedGateGate = ""
		}
		return n
	}
	return names
}

// Tensors gives every tensor that a model with this configuration needs, with its shape, in the order of computation. Router
// and attention come before a layer's experts, so that a check finds a wrong count by name.
func (c *Config) Tensors() iter.Seq2[string, []int] {
	return func(yield func(string, []int) bool) {
		if !yield(c.Embedding, []int{c.Vocabulary, c.Hidden}) {
			return
		}
		for i := range c.Layers {
			for name, shape := range c.layerTensors(i) {
				if name != "" && !yield(name, shape) {
					return
				}
			}
		}
		if !yield(c.FinalNorm, []int{c.Hidden}) {
			return
		}
		if !c.TiedEmbedding {
			yield(c.LMHead, []int{c.Vocabulary, c.Hidden})
		}
	}
}

// layerTensors gives the tensors of one layer; absent ones have the name "".
func (c *Config) layerTensors(i int) iter.Seq2[string, []int] {
	queries, keys := c.Heads*c.HeadDim, c.KVHeads*c.HeadDim
	n := c.Layer(i)
	list := []struct {
		name  string
		shape []int
	}{
		{n.InputNorm, []int{c.Hidden}},
		{n.Q, []int{queries, c.Hidden}}, {n.QBias, []int{queries}},
		{n.K, []int{keys, c.Hidden}}, {n.KBias, []int{keys}},
		{n.V, []int{keys, c.Hidden}}, {n.VBias, []int{keys}},
		{n.QNorm, []int{c.HeadDim}}, {n.KNorm, []int{c.HeadDim}},
		{n.O, []int{c.Hidden, queries}}, {n.OBias, []int{c.Hidden}},
		{n.PostAttentionNorm, []int{c.Hidden}},
		{n.DenseGate, []int{c.DenseIntermediate, c.Hidden}},
		{n.DenseUp, []int{c.DenseIntermediate, c.Hidden}},
		{n.DenseDown, []int{c.Hidden, c.DenseIntermediate}},
		{n.Router, []int{c.Experts, c.Hidden}},
		{n.SharedGateProj, []int{c.SharedIntermediate, c.Hidden}},
		{n.SharedUpProj, []int{c.SharedIntermediate, c.Hidden}},
		{n.SharedDownProj, []int{c.Hidden, c.SharedIntermediate}},
		{n.SharedGateGate, []int{1, c.Hidden}},
	}
	return func(yield func(string, []int) bool) {
		for _, t := range list {
			if !yield(t.name, t.shape) {
				return
			}
		}
		if !c.Layers[i].MoE {
			return
		}
		in, out := []int{c.ExpertIntermediate, c.Hidden}, []int{c.Hidden, c.ExpertIntermediate}
		for e := range c.Experts {
			names := c.Expert(i, e)
			if !yield(names.Gate, in) || !yield(names.Up, in) || !yield(names.Down, out) {
				return
			}
		}
	}
}
