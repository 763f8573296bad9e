package engine

import (
	"github.com/moepool/moepool/coordinator/attention"
	"github.com/moepool/moepool/coordinator/model"
	"github.com/moepool/moepool/kernels"
)

// embed fills the residual stream with the tokens' embeddings, and the rotation of each position. The rows come from the checkpoint's
// mapping, always on the team: there a file that was truncated underneath is an error.
func (e *Engine) embed(b *batch) error {
	c := e.config
	return e.options.Team.Run(b.rows, func(row, _ int) error {
		chunk := b.chunks[b.chunk[row]]
		token := chunk.Tokens[b.position[row]-chunk.Sequence.length]
		e.model.Embedding.Row(int(token), at(b.hidden, row, c.Hidden))
		kernels.RopeTable(at(b.cos, row, c.HeadDim/2), at(b.sin, row, c.HeadDim/2), b.position[row], e.frequencies)
		return nil
	})
}

// attend adds a layer's attention to the residual stream.
func (e *Engine) attend(b *batch, l *model.Layer) error {
	c, set := e.config, e.options.Kernels
	queries, keys := c.Heads*c.HeadDim, c.KVHeads*c.HeadDim

	x := b.activations(e.options.DenseFormat)
	x.Reset(e.options.DenseFormat.Quantized(), b.rows, c.Hidden)
	err := e.rowPass(b, func(row int) error {
		normed := at(b.normed, row, c.Hidden)
		set.RMSNorm(normed, at(b.hidden, row, c.Hidden), l.InputNorm, c.NormEpsilon)
		return set.Prepare(x, row, normed)
	})
	if err != nil {
		return err
	}
	err = e.multiply(b, b.rows, product{b.queries, l.Q.Matrix, x}, product{b.keys, l.K.Matrix, x}, product{b.values, l.V.Matrix, x})
	if err != nil {
		return err
	}

	err = e.rowPass(b, func(row int) error {
		q, k, v := at(b.queries, row, queries), at(b.keys, row, keys), at(b.values, row, keys)
		addBias(set, q, l.Q.Bias)
		addBias(set, k, l.K.Bias)
		addBias(set, v, l.V.Bias)
		normHeads(set, q, l.QNorm, c.NormEpsilon)
		normHeads(set, k, l.KNorm, c.NormEpsilon)
		cos, sin := at(b.cos, row, c.HeadDim/2), at(b.sin, row, c.HeadDim/2)
		set.Rotate(q, c.HeadDim, cos, sin)
		set.Rotate(k, c.HeadDim, cos, sin)
		b.chunks[b.chunk[row]].Sequence.cache.Store(set, b.layer, b.position[row], k, v)
		return nil
	})
	if err != nil {
		return err
	}
	b.attention = b.attention[:0]
	for row := range b.rows {
		b.attention = append(b.attention, attention.Row{
			Cache:    b.chunks[b.chunk[row]].Sequence.cache,
			Position: b.position[row],
			Q:        at(b.queries, row, queries),
			Out:      at(b.attended, row, queries),
		})
	}
	if err := e.attention.Run(b.layer, l.Window, b.attention); err != nil {
		return err
	}

	b.inner.Reset(e.options.DenseFormat.Quantized(), b.rows, queries)
	err = e.rowPass(b, func(row int) error { return set.Prepare(&b.inner, row, at(b.attended, row, queries)) })
	if err != nil {
		return err
	}
	if err := e.multiply(b, b.rows, product{b.out, l.O.Matrix, &b.inner}); err != nil {
		return err
	}
	return e.rowPass(b, func(row int) error {
		out := at(b.out, row, c.Hidden)
		addBias(set, out, l.O.Bias)
		set.Add(at(b.hidden, row, c.Hidden), out)
		return nil
	})
}

// activations is where the normed rows are prepared for a format.
func (b *batch) activations(f kernels.Format) *kernels.Activations {
	if f.Quantized() {
		return &b.codes
	}
	return &b.floats
}

func addBias(set *kernels.Set, x, bias []float32) {
	if bias != nil {
		set.Add(x, bias)
	}
}

// normHeads normalises each head of x by weight [head dim], if there is one.
func normHeads(set *kernels.Set, x, weight []float32, epsilon float32) {
	if weight == nil {
		return
	}
	for from := 0; from < len(x); from += len(weight) {
		head := x[from : from+len(weight)]
		set.RMSNorm(head, head, weight, epsilon)
	}
}
