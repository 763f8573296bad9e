package engine

import (
	"context"
	"fmt"

	"github.com/moepool/moepool/coordinator/model"
	"github.com/moepool/moepool/coordinator/router"
	"github.com/moepool/moepool/kernels"
)

// feedForward adds a layer's experts, or its dense feed-forward network, to the residual stream.
func (e *Engine) feedForward(ctx context.Context, b *batch, l *model.Layer, residency Residency) error {
	floats, codes := e.feedForwardForms(l)
	if floats {
		b.floats.Reset(false, b.rows, e.config.Hidden)
	}
	if codes {
		b.codes.Reset(true, b.rows, e.config.Hidden)
	}
	if err := e.rowPass(b, normAttended); err != nil {
		return err
	}
	if l.Dense != nil {
		if err := e.dense(b, l.Dense, b.out); err != nil {
			return fmt.Errorf("feed-forward network: %w", err)
		}
		return e.rowPass(b, addDense)
	}
	if err := e.route(b, l, residency); err != nil {
		return fmt.Errorf("router: %w", err)
	}
	if err := e.experts(ctx, b, l); err != nil {
		return err
	}
	return e.rowPass(b, addExperts)
}

// feedForwardForms says in which forms a layer's rows are needed.
func (e *Engine) feedForwardForms(l *model.Layer) (floats, codes bool) {
	dense := e.options.DenseFormat.Quantized()
	floats = l.Router != nil || !dense
	codes = l.Router != nil && e.options.ExpertFormat.Quantized() || (l.Dense != nil || l.Shared != nil) && dense
	return floats, codes
}

// normAttended prepares a row for router, experts and dense feed-forward network.
func normAttended(e *Engine, b *batch, row int) (err error) {
	c, set := e.config, e.options.Kernels
	floats, codes := e.feedForwardForms(b.weights)
	normed := at(b.normed, row, c.Hidden)
	set.RMSNorm(normed, at(b.hidden, row, c.Hidden), b.weights.PostAttentionNorm, c.NormEpsilon)
	if floats {
		err = set.Prepare(&b.floats, row, normed)
	}
	if codes && err == nil {
		err = set.Prepare(&b.codes, row, normed)
	}
	return err
}

func addDense(e *Engine, b *batch, row int) error {
	e.options.Kernels.Add(at(b.hidden, row, e.config.Hidden), at(b.out, row, e.config.Hidden))
	return nil
}

// addExperts ends a layer, in this order: routed total, + gate·shared, + residual (DESIGN §2).
func addExperts(e *Engine, b *batch, row int) error {
	c, set, l := e.config, e.options.Kernels, b.weights
	out := at(b.out, row, c.Hidden)
	set.FromFixed(out, at(b.sums, row, c.Hidden))
	switch {
	case l.SharedGate != nil:
		set.AddScaled(out, at(b.shared, row, c.Hidden), kernels.Sigmoid(b.sharedGate[row]))
	case l.Shared != nil:
		set.Add(out, at(b.shared, row, c.Hidden))
	}
	set.Add(at(b.hidden, row, c.Hidden), out)
	return nil
}

// dense computes a feed-forward network of the prepared rows into dst [rows, hidden].
func (e *Engine) dense(b *batch, f *model.FeedForward, dst []float32) error {
	width := f.Gate.Outputs
	b.gate, b.up = resize(b.gate, b.rows*width), resize(b.up, b.rows*width)
	x := b.activations(e.options.DenseFormat)
	if err := e.multiply(b, b.rows, product{b.gate, f.Gate, x}, product{b.up, f.Up, x}); err != nil {
		return err
	}
	b.inner.Reset(e.options.DenseFormat.Quantized(), b.rows, width)
	if err := e.rowPass(b, activate); err != nil {
		return err
	}
	return e.multiply(b, b.rows, product{dst, f.Down, &b.inner})
}

// activate computes silu(gate)·up of a row and prepares it for the down product.
func activate(e *Engine, b *batch, row int) error {
	set, width := e.options.Kernels, b.inner.Columns
	gate := at(b.gate, row, width)
	set.SiLUMultiply(gate, gate, at(b.up, row, width))
	return set.Prepare(&b.inner, row, gate)
}

// route chooses the experts of each row and applies the budget. A failed row wants none.
func (e *Engine) route(b *batch, l *model.Layer, residency Residency) error {
	c := e.config
	b.scores = resize(b.scores, b.rows*c.Experts)
	b.sharedGate = resize(b.sharedGate, b.rows)
	b.choices, b.candidates = resize(b.choices, b.rows), resize(b.candidates, b.rows)
	room := [3]product{{b.scores, *l.Router, &b.floats}}
	products := room[:1]
	if l.SharedGate != nil {
		products = append(products, product{b.sharedGate, *l.SharedGate, &b.floats})
	}
	if b.target = e.target(b); b.target > 0 {
		next, err := e.beginPrediction(b)
		if err != nil {
			return err
		}
		products = append(products, next)
	}
	if err := e.multiply(b, b.rows, products...); err != nil {
		return err
	}
	if err := e.rowPass(b, choose); err != nil {
		return err
	}
	for row := range b.rows {
		if b.lost(row) {
			for _, c := range []*router.Choice{&b.choices[row], &b.candidates[row]} {
				c.Experts, c.Weights = c.Experts[:0], c.Weights[:0]
			}
		}
	}
	e.judge(b)
	if e.options.Observer != nil {
		e.options.Observer(b.layer, b.choices)
	}
	b.residency = residency
	e.cut(b)
	return nil
}

// choose is the router's choice for a row.
func choose(e *Engine, b *batch, row int) error {
	c := e.config
	scores := at(b.scores, row, c.Experts)
	if !finite(scores) {
		return fmt.Errorf("router scores: %w", kernels.ErrNotFinite)
	}
	divisor := router.TopK(e.options.Kernels, &b.choices[row], scores, c.TopK, c.NormalizeTopK)
	if n := b.budget.Candidates(c.TopK); n > 0 && b.budget.Governs(b.phases[row]) {
		router.Candidates(&b.candidates[row], scores, n, divisor)
	}
	return nil
}

// experts computes the routed experts, and meanwhile the shared one.
func (e *Engine) experts(ctx context.Context, b *batch, l *model.Layer) error {
	c := e.config
	next, err := e.endPrediction(b)
	if err != nil {
		return fmt.Errorf("prediction: %w", err)
	}
	b.sums = resize(b.sums, b.rows*c.Hidden)
	clear(b.sums)
	b.call = ExpertCall{
		Layer:   b.layer,
		Rows:    b.activations(e.options.ExpertFormat),
		Choices: b.choices,
		Sum:     b.sums,
		RowErr:  resize(b.call.RowErr, b.rows),
		Next:    next,
		Cut:     b.report.Dropped,
		Filled:  b.report.Filled,
	}
	clear(b.call.RowErr)
	if l.Shared == nil {
		e.options.Team.Rest() // workers of this host need the CPUs now
		if err := e.routed(ctx, b); err != nil {
			return err
		}
	} else {
		b.ctx = ctx
		go e.routedJob()
		b.shared = resize(b.shared, b.rows*c.Hidden)
		err := e.dense(b, l.Shared, b.shared)
		// Compute ends by itself, with deadlines of its own: its memory is this batch's, so it is always waited for.
		if routedErr := <-e.routedDone; routedErr != nil {
			return routedErr
		}
		if err != nil {
			return fmt.Errorf("shared expert: %w", err)
		}
	}
	copy(b.rowErr[:b.rows], b.call.RowErr)
	b.fail()
	return nil
}

// routed computes the routed experts of the batch's call.
func (e *Engine) routed(ctx context.Context, b *batch) error {
	stats, err := e.options.Experts.Compute(ctx, &b.call)
	e.countExperts(stats)
	e.predictor.saw(stats)
	if err != nil {
		return fmt.Errorf("experts: %w", err)
	}
	return nil
}

// runRouted computes them beside the shared expert.
func (e *Engine) runRouted() { e.routedDone <- e.routed(e.batch.ctx, &e.batch) }

// finite says whether all of x are numbers.
func finite(x []float32) bool {
	for _, v := range x {
		if v-v != 0 { // an infinity or a NaN gives NaN
			return false
		}
	}
	return true
}
