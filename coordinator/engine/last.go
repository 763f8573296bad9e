package engine

import (
	"fmt"

	"github.com/moepool/moepool/checkpoint"
	"github.com/moepool/moepool/coordinator/model"
	"github.com/moepool/moepool/kernels"
)

// Of the last layer, positions whose logits are not wanted need only keys and values, which later positions will look at: their queries,
// feed-forward network and experts are not computed. The others' bits don't depend on that.

// attendLast is the beginning of the last layer's attention where some rows are not wanted: it stores the keys and values of all
// rows, takes those that are not wanted out of the batch and computes the queries of the others.
func (e *Engine) attendLast(b *batch, l *model.Layer, x *kernels.Activations) error {
	if err := e.multiply(b, b.rows, product{b.keys, l.K.Matrix, x}, product{b.values, l.V.Matrix, x}); err != nil {
		return err
	}
	if err := e.rowPass(b, storeLast); err != nil {
		return err
	}
	b.keepWanted(e.config)
	x.Reset(x.Quantized, b.rows, e.config.Hidden)
	if err := e.rowPass(b, normInput); err != nil {
		return err
	}
	if err := e.multiply(b, b.rows, product{b.queries, l.Q.Matrix, x}); err != nil {
		return err
	}
	return e.rowPass(b, rotateQueries)
}

// storeLast stores a row's keys and values; nothing else looks at them in this step if the row isn't wanted.
func storeLast(e *Engine, b *batch, row int) error {
	width := e.config.KVHeads * e.config.HeadDim
	if !finite(at(b.keys, row, width)) || !finite(at(b.values, row, width)) {
		return fmt.Errorf("keys and values: %w", kernels.ErrNotFinite)
	}
	return storeKeys(e, b, row)
}

// wanted says whether a row's logits are wanted.
func (b *batch) wanted(row int) bool {
	switch b.chunks[b.chunk[row]].Logits {
	case AllLogits:
		return true
	case NoLogits:
		return false
	}
	return row+1 == b.rows || b.chunk[row+1] != b.chunk[row]
}

// allWanted says whether the logits of all rows are wanted.
func (b *batch) allWanted() bool {
	for row := range b.rows {
		if !b.wanted(row) {
			return false
		}
	}
	return true
}

// keepWanted takes the rows out of the batch whose logits are not wanted.
func (b *batch) keepWanted(c *checkpoint.Config) { b.keep(c, b.wanted) }
