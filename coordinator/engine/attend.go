package engine

import (
	"github.com/moepool/moepool/coordinator/attention"
	"github.com/moepool/moepool/coordinator/model"
	"github.com/moepool/moepool/kernels"
)

// embed fills the residual stream with the tokens' embeddings, and the rotation of each position. The rows come from the checkpoint's
// mapping, always on the team: there a file that was truncated underneath is an error.
func (e *Engine) embed(b *batch) error { return e.options.Team.Run(b.rows, e.embedJob) }

// runEmbed is the team's job of embed.
func (e *Engine) runEmbed(row, _ int) error {
	b, c := &e.batch, e.config
	chunk := b.chunks[b.chunk[row]]
	token := chunk.Tokens[b.position[row]-chunk.Sequence.length]
	e.model.Embedding.Row(int(token), at(b.hidden, row, c.Hidden))
	kernels.RopeTable(at(b.cos, row, c.HeadDim/2), at(b.sin, row, c.HeadDim/2), b.position[row], e.frequencies)
	return nil
}

// attend adds a layer's attention to the residual stream. In the last layer it leaves only rows in the batch whose logits are wanted.
func (e *Engine) attend(b *batch, l *model.Layer) error {
	queries := e.config.Heads * e.config.HeadDim
	x := b.activations(e.options.DenseFormat)
	x.Reset(e.options.DenseFormat.Quantized(), b.rows, e.config.Hidden)
	if err := e.rowPass(b, normInput); err != nil {
		return err
	}
	if b.layer == len(e.model.Layers)-1 && !b.allWanted() {
		if err := e.attendLast(b, l, x); err != nil || b.rows == 0 {
			return err
		}
	} else {
		err := e.multiply(b, b.rows, product{b.queries, l.Q.Matrix, x}, product{b.keys, l.K.Matrix, x}, product{b.values, l.V.Matrix, x})
		if err != nil {
			return err
		}
		if err := e.rowPass(b, rotateAndStore); err != nil {
			return err
		}
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
	if err := e.rowPass(b, prepareAttended); err != nil {
		return err
	}
	if err := e.multiply(b, b.rows, product{b.out, l.O.Matrix, &b.inner}); err != nil {
		return err
	}
	return e.rowPass(b, addAttended)
}

// normInput prepares a row for the products of queries, keys and values.
func normInput(e *Engine, b *batch, row int) error {
	c, set := e.config, e.options.Kernels
	normed := at(b.normed, row, c.Hidden)
	set.RMSNorm(normed, at(b.hidden, row, c.Hidden), b.weights.InputNorm, c.NormEpsilon)
	return set.Prepare(b.activations(e.options.DenseFormat), row, normed)
}

// rotateAndStore finishes a row's queries, keys and values, and stores the latter two.
func rotateAndStore(e *Engine, b *batch, row int) error {
	if err := rotateQueries(e, b, row); err != nil {
		return err
	}
	return storeKeys(e, b, row)
}

func rotateQueries(e *Engine, b *batch, row int) error {
	c, set, l := e.config, e.options.Kernels, b.weights
	q := at(b.queries, row, c.Heads*c.HeadDim)
	addBias(set, q, l.Q.Bias)
	normHeads(set, q, l.QNorm, c.NormEpsilon)
	set.Rotate(q, c.HeadDim, at(b.cos, row, c.HeadDim/2), at(b.sin, row, c.HeadDim/2))
	return nil
}

func storeKeys(e *Engine, b *batch, row int) error {
	c, set, l := e.config, e.options.Kernels, b.weights
	k, v := at(b.keys, row, c.KVHeads*c.HeadDim), at(b.values, row, c.KVHeads*c.HeadDim)
	addBias(set, k, l.K.Bias)
	addBias(set, v, l.V.Bias)
	normHeads(set, k, l.KNorm, c.NormEpsilon)
	set.Rotate(k, c.HeadDim, at(b.cos, row, c.HeadDim/2), at(b.sin, row, c.HeadDim/2))
	b.chunks[b.chunk[row]].Sequence.cache.Store(set, b.layer, b.position[row], k, v)
	return nil
}

// prepareAttended prepares a row for the output projection.
func prepareAttended(e *Engine, b *batch, row int) error {
	return e.options.Kernels.Prepare(&b.inner, row, at(b.attended, row, e.config.Heads*e.config.HeadDim))
}

func addAttended(e *Engine, b *batch, row int) error {
	out := at(b.out, row, e.config.Hidden)
	addBias(e.options.Kernels, out, b.weights.O.Bias)
	e.options.Kernels.Add(at(b.hidden, row, e.config.Hidden), out)
	return nil
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
