package engine

import (
	"fmt"

	"github.com/moepool/moepool/kernels"
)

// head computes the logits of the rows: those of wanted positions are left.
func (e *Engine) head(b *batch) error {
	c := e.config
	b.compact(c)
	if b.rows == 0 {
		return nil
	}

	x := b.activations(e.options.DenseFormat)
	x.Reset(e.options.DenseFormat.Quantized(), b.rows, c.Hidden)
	if err := e.rowPass(b, normFinal); err != nil {
		return err
	}
	logits := b.logitsRoom(b.rows * c.Vocabulary)
	if err := e.multiply(b, b.rows, product{logits, e.model.Head, x}); err != nil {
		return err
	}
	b.allLogits = logits
	if err := e.rowPass(b, checkLogits); err != nil {
		return err
	}
	for from := 0; from < b.rows; {
		to := from
		for to < b.rows && b.chunk[to] == b.chunk[from] {
			to++
		}
		b.logits[b.chunk[from]] = logits[from*c.Vocabulary : to*c.Vocabulary : to*c.Vocabulary]
		from = to
	}
	return nil
}

// logitsRoom gives memory for n logits: that of the caller if there is one, since for a large vocabulary the new memory of each step
// would be most of what is collected.
func (b *batch) logitsRoom(n int) []float32 {
	first := b.chunk[0]
	if into := b.chunks[first].Into; cap(into) >= n && b.chunk[b.rows-1] == first {
		return into[:n]
	}
	return make([]float32, n)
}

// normFinal prepares a row for the LM head.
func normFinal(e *Engine, b *batch, row int) error {
	c, set := e.config, e.options.Kernels
	normed := at(b.normed, row, c.Hidden)
	set.RMSNorm(normed, at(b.hidden, row, c.Hidden), e.model.FinalNorm, c.NormEpsilon)
	return set.Prepare(b.activations(e.options.DenseFormat), row, normed)
}

func checkLogits(e *Engine, b *batch, row int) error {
	if !finite(at(b.allLogits, row, e.config.Vocabulary)) {
		return fmt.Errorf("logits: %w", kernels.ErrNotFinite)
	}
	return nil
}
