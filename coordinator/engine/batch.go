package engine

import (
	"context"
	"fmt"

	"github.com/moepool/moepool/checkpoint"
	"github.com/moepool/moepool/coordinator/attention"
	"github.com/moepool/moepool/coordinator/budget"
	"github.com/moepool/moepool/coordinator/model"
	"github.com/moepool/moepool/coordinator/router"
	"github.com/moepool/moepool/kernels"
)

// batch is the step in progress. Its memory is used again by the next one.
type batch struct {
	chunks    []Chunk
	failed    []error     // per chunk
	logits    [][]float32 // per chunk
	allLogits []float32   // [rows, vocabulary]
	budget    budget.Policy
	layer     int          // in progress, for messages; the number of layers in the LM head
	weights   *model.Layer // of the layer in progress

	// Rows of chunks that have not failed, in the order of chunks and positions.
	rows     int
	index    []int32 // 0, 1, ..., rows-1
	chunk    []int   // of each row
	position []int   // of each row
	phases   []budget.Phase
	rowErr   []error // set by the pass in progress

	hidden            []float32 // [rows, hidden]: the residual stream
	cos, sin          []float32 // [rows, head dim / 2]
	normed            []float32 // [rows, hidden]
	queries, attended []float32 // [rows, heads · head dim]
	keys, values      []float32 // [rows, KV heads · head dim]
	out               []float32 // [rows, hidden]: what is added to the residual stream
	gate, up          []float32 // [rows, intermediate]
	shared            []float32 // [rows, hidden]: output of the shared expert
	sharedGate        []float32 // [rows]
	scores            []float32 // [rows, experts]
	sums              []int64   // [rows, hidden]
	choices           []router.Choice
	candidates        []router.Choice // per row, best first; only where the budget needs them
	residency         Residency       // the budget's, of this step
	cutter            budget.Cutter
	decision          budget.Batch
	report            budget.Report // of the layer in progress
	attention         []attention.Row

	predicted              []predicted // by layer
	target                 int         // the layer whose experts are being predicted; 0: none
	nextNormed, nextScores []float32
	nextFloats             kernels.Activations

	floats, codes kernels.Activations // of normed; which of them are valid depends on the formats that a layer needs
	inner         kernels.Activations // of attended, of the inside of a feed-forward network
	call          ExpertCall
	ctx           context.Context // of call, beside a shared expert

	// The run in progress on the team.
	products   []product
	jobs       []job
	ends       []int // of each node's jobs, on several NUMA nodes
	multiplied int   // rows of products
	pass       rowFunc
}

// begin makes rows of the chunks; a chunk that can't be computed fails here.
func (b *batch) begin(e *Engine, chunks []Chunk) {
	b.chunks = chunks
	b.budget = e.options.Budget
	if len(chunks) > 0 {
		b.budget = e.policy(chunks[0])
	}
	b.failed = resize(b.failed, len(chunks))
	b.logits = resize(b.logits, len(chunks))
	clear(b.failed)
	clear(b.logits)
	b.layer = 0
	b.forgetPredictions()
	b.chunk, b.position, b.phases = b.chunk[:0], b.position[:0], b.phases[:0]
	for i, c := range chunks {
		if b.failed[i] = e.check(c); b.failed[i] != nil {
			continue
		}
		for j := range c.Tokens {
			b.chunk = append(b.chunk, i)
			b.position = append(b.position, c.Sequence.length+j)
			b.phases = append(b.phases, c.Phase)
		}
	}
	b.rows = len(b.chunk)
	b.rowErr = resize(b.rowErr, b.rows)
	clear(b.rowErr)
	for len(b.index) < b.rows {
		b.index = append(b.index, int32(len(b.index)))
	}

	c, n := e.config, b.rows
	b.hidden = resize(b.hidden, n*c.Hidden)
	b.cos, b.sin = resize(b.cos, n*c.HeadDim/2), resize(b.sin, n*c.HeadDim/2)
	b.normed = resize(b.normed, n*c.Hidden)
	b.queries, b.attended = resize(b.queries, n*c.Heads*c.HeadDim), resize(b.attended, n*c.Heads*c.HeadDim)
	b.keys, b.values = resize(b.keys, n*c.KVHeads*c.HeadDim), resize(b.values, n*c.KVHeads*c.HeadDim)
	b.out = resize(b.out, n*c.Hidden)
}

// end forgets the callers' values.
func (b *batch) end() {
	b.chunks, b.ctx, b.allLogits, b.residency = nil, nil, nil, nil
	clear(b.failed)
	clear(b.logits)
	clear(b.attention)
}

// fail turns errors of rows into failures of their sequences. Their rows are carried on to the end of the layer, as whatever they
// are, and change nothing for the others.
func (b *batch) fail() {
	for row, err := range b.rowErr[:b.rows] {
		if err == nil {
			continue
		}
		b.rowErr[row] = nil
		if i := b.chunk[row]; b.failed[i] == nil {
			b.failed[i] = fmt.Errorf("layer %d, position %d: %w", b.layer, b.position[row], err)
		}
	}
}

// lost says whether a row's sequence has failed.
func (b *batch) lost(row int) bool { return b.failed[b.chunk[row]] != nil }

// compact takes the rows of failed sequences out of the batch.
func (b *batch) compact(c *checkpoint.Config) {
	b.keep(c, func(row int) bool { return !b.lost(row) })
}

// keep takes the rows out of the batch for which wanted is false; it is asked in ascending order, before rows from there on move.
// Between layers, all there is of a row is what is moved here.
func (b *batch) keep(c *checkpoint.Config, wanted func(row int) bool) {
	kept := 0
	for row := range b.rows {
		if !wanted(row) {
			continue
		}
		if kept != row {
			b.chunk[kept], b.position[kept], b.phases[kept] = b.chunk[row], b.position[row], b.phases[row]
			copy(at(b.hidden, kept, c.Hidden), at(b.hidden, row, c.Hidden))
			copy(at(b.cos, kept, c.HeadDim/2), at(b.cos, row, c.HeadDim/2))
			copy(at(b.sin, kept, c.HeadDim/2), at(b.sin, row, c.HeadDim/2))
		}
		kept++
	}
	b.rows = kept
}

// at is row i of a matrix with rows of width.
func at[T any](x []T, i, width int) []T { return x[i*width : (i+1)*width : (i+1)*width] }

// resize gives a slice of length n, with the same memory if it is large enough; the contents are undefined.
func resize[T any](x []T, n int) []T {
	if cap(x) < n {
		return make([]T, n, max(n, 2*cap(x)))
	}
	return x[:n]
}
