package engine

import "github.com/moepool/moepool/kernels"

// product is dst[row·outputs + o] = matrix[o]·x(row) for all rows of x.
type product struct {
	dst    []float32
	matrix kernels.Matrix
	x      *kernels.Activations
}

// job is the outputs [from, to) of a product.
type job struct{ product, from, to int }

const (
	// jobsPerThread lets a slow thread leave jobs to the others.
	jobsPerThread = 4
	// mostJobBlocks keeps a job's weights in the second-level cache while its rows pass by.
	mostJobBlocks = 16
)

// multiply computes products of the first rows of their activations on the team, split by blocks of outputs. How they are split
// doesn't change a bit.
func (e *Engine) multiply(b *batch, rows int, products ...product) error {
	blocks := 0
	for _, p := range products {
		blocks += (p.matrix.Outputs + kernels.BlockOutputs - 1) / kernels.BlockOutputs
	}
	step := kernels.BlockOutputs * min(max(blocks/(jobsPerThread*e.options.Team.Threads()), 1), mostJobBlocks)
	b.products, b.jobs = append(b.products[:0], products...), b.jobs[:0]
	for i, p := range products {
		for from := 0; from < p.matrix.Outputs; from += step {
			b.jobs = append(b.jobs, job{i, from, min(from+step, p.matrix.Outputs)})
		}
	}
	return e.options.Team.Run(len(b.jobs), func(i, _ int) error {
		j := b.jobs[i]
		p := &b.products[j.product]
		e.options.Kernels.Multiply(p.dst, p.matrix.Outputs, p.matrix, p.x, b.index[:rows], j.from, j.to)
		return nil
	})
}

const (
	// inlineRows is the most rows for which waking the team costs more than it gains.
	inlineRows = 3
	// passRows is the number of rows of one job of a pass.
	passRows = 4
)

// pass calls f for each of n rows, on the team where that is worth it. An error of f is one of the row.
func (e *Engine) pass(b *batch, n int, f func(row int) error) error {
	run := func(row int) {
		if err := f(row); err != nil && b.rowErr[row] == nil {
			b.rowErr[row] = err
		}
	}
	if n <= inlineRows {
		for row := range n {
			run(row)
		}
		return nil
	}
	return e.options.Team.Run((n+passRows-1)/passRows, func(i, _ int) error {
		for row := i * passRows; row < min((i+1)*passRows, n); row++ {
			run(row)
		}
		return nil
	})
}

// rowPass is a pass over the rows of the batch, after which sequences fail whose rows had an error.
func (e *Engine) rowPass(b *batch, f func(row int) error) error {
	err := e.pass(b, b.rows, f)
	b.fail()
	return err
}
