package engine

import (
	"github.com/moepool/moepool/coordinator/model"
	"github.com/moepool/moepool/kernels"
	"github.com/moepool/moepool/kernels/team"
)

// product is dst[row·outputs + o] = matrix[o]·x(row) for all rows of x.
type product struct {
	dst    []float32
	matrix kernels.Matrix
	x      *kernels.Activations
}

// job is the outputs [from, to) of a product.
type job struct{ product, from, to int }

const (
	// mostJobBlocks keeps a job's weights in the second-level cache while its rows pass by.
	mostJobBlocks = 16
	// restShare is how many jobs each thread would get of the blocks that are left, if all were as wide as the next one.
	restShare = 3
)

// multiply computes products of the first rows of their activations on the team, split by blocks of outputs. How they are split
// doesn't change a bit.
func (e *Engine) multiply(b *batch, rows int, products ...product) error {
	t := e.options.Team
	b.products = append(b.products[:0], products...)
	b.multiplied = rows
	if nodes := t.Nodes(); nodes != nil {
		b.jobs, b.ends = cutByNode(b.jobs[:0], b.ends[:0], b.products, nodes)
		return t.RunRanges(b.ends, e.productJob)
	}
	b.jobs = cutProducts(b.jobs[:0], b.products, t.Threads())
	return t.Run(len(b.jobs), e.productJob)
}

// runProduct is the team's job of multiply.
func (e *Engine) runProduct(i, _ int) error {
	b := &e.batch
	j := b.jobs[i]
	p := &b.products[j.product]
	e.options.Kernels.Multiply(p.dst, p.matrix.Outputs, p.matrix, p.x, b.index[:b.multiplied], j.from, j.to)
	return nil
}

// cutProducts appends the jobs of products for a number of threads. They become narrower towards the end (guided self-scheduling), so
// that all threads end together, also when one woke late or computes slowly: with one row, 16 blocks take a thread 70 µs.
func cutProducts(jobs []job, products []product, threads int) []job {
	return cut(jobs, products, threads, func(outputs int) (from, to int) { return 0, outputs })
}

// cutByNode appends the jobs of each node's threads: they multiply by the outputs whose weights are on their node. ends is where each
// node's jobs end.
func cutByNode(jobs []job, ends []int, products []product, nodes []team.Node) ([]job, []int) {
	for k, n := range nodes {
		jobs = cut(jobs, products, n.Threads, func(outputs int) (from, to int) { return model.Share(nodes, k, outputs) })
		ends = append(ends, len(jobs))
	}
	return jobs, ends
}

// cut appends jobs for the shares of products' outputs.
func cut(jobs []job, products []product, threads int, share func(outputs int) (from, to int)) []job {
	left := 0
	for _, p := range products {
		from, to := share(p.matrix.Outputs)
		left += blocks(to - from)
	}
	for i, p := range products {
		from, end := share(p.matrix.Outputs)
		for from < end {
			width := min(max(left/(restShare*threads), 1), mostJobBlocks)
			to := min(from+width*kernels.BlockOutputs, end)
			jobs = append(jobs, job{i, from, to})
			left -= blocks(to - from)
			from = to
		}
	}
	return jobs
}

// blocks is the number of blocks that outputs take.
func blocks(outputs int) int { return (outputs + kernels.BlockOutputs - 1) / kernels.BlockOutputs }

const (
	// inlineRows is the most rows for which waking the team costs more than it gains.
	inlineRows = 3
	// passRows is the number of rows of one job of a pass.
	passRows = 4
)

// rowFunc computes something of one row of the batch. An error is one of the row.
type rowFunc func(e *Engine, b *batch, row int) error

// rowPass calls f for each row of the batch, on the team where that is worth it; sequences fail whose rows had an error.
func (e *Engine) rowPass(b *batch, f rowFunc) error {
	b.pass = f
	var err error
	if b.rows <= inlineRows {
		for row := range b.rows {
			e.runRow(b, row)
		}
	} else {
		err = e.options.Team.Run((b.rows+passRows-1)/passRows, e.rowJob)
	}
	b.fail()
	return err
}

// runRows is the team's job of rowPass.
func (e *Engine) runRows(i, _ int) error {
	b := &e.batch
	for row := i * passRows; row < min((i+1)*passRows, b.rows); row++ {
		e.runRow(b, row)
	}
	return nil
}

func (e *Engine) runRow(b *batch, row int) {
	if err := b.pass(e, b, row); err != nil && b.rowErr[row] == nil {
		b.rowErr[row] = err
	}
}
