// Package engine computes one step of the model over a batch of rows: attention, routing, budget, experts, LM head. It knows
// experts only through the Experts interface. It must not know of text, sampling, workers or networks.
//
// A row's bits depend on its own sequence alone (DESIGN §2): every operation here is either per row, or one of the kernels whose
// contract fixes the order of sums of each output; what crosses rows is attention, through blocks at absolute positions, and the
// budget, which may drop experts.
package engine

import (
	"errors"
	"fmt"
	"sync"

	"github.com/moepool/moepool/checkpoint"
	"github.com/moepool/moepool/coordinator/attention"
	"github.com/moepool/moepool/coordinator/model"
	"github.com/moepool/moepool/kernels"
)

// ErrClosed is the error of using an engine or a sequence after its Close.
var ErrClosed = errors.New("closed")

// Engine is a loaded model that computes steps. Its methods may be called from any goroutine; one step runs at a time.
type Engine struct {
	options     Options
	config      *checkpoint.Config
	model       *model.Model
	attention   *attention.Attention
	cacheShape  attention.Shape
	frequencies []float32 // of the rotary embedding, [head dim / 2]
	partBytes   []int64   // packed bytes of one expert's part p

	step      sync.Mutex // held by the step in progress, and by what changes a sequence
	closed    bool
	batch     batch
	predictor predictor

	// The team's jobs on the batch, and what computes routed experts beside a shared one: values made once, so that steps allocate nothing
	// for them.
	embedJob, rowJob, productJob func(i, thread int) error
	routedJob                    func()
	routedDone                   chan error
	// The budget's questions about the layer in progress, for the same reason.
	resident func(expert int32) bool
	missing  func(expert int32, part func(worker int, bytes int64))

	counting sync.Mutex
	totals   Totals
	// predictions are judged by layer; nil before the first.
	predictions []LayerPrediction
}

// New packs the dense weights of a checkpoint, which must stay open as long as the engine.
func New(cp *checkpoint.Checkpoint, o Options) (*Engine, error) {
	c := cp.Config()
	if err := o.complete(c); err != nil {
		return nil, err
	}
	e := &Engine{
		options:     o,
		config:      c,
		cacheShape:  attention.Shape{Layers: len(c.Layers), KVHeads: c.KVHeads, HeadDim: c.HeadDim, Format: o.KVFormat},
		frequencies: kernels.InverseFrequencies(c.RopeTheta, c.HeadDim),
	}
	e.embedJob, e.rowJob, e.productJob, e.routedJob = e.runEmbed, e.runRows, e.runProduct, e.runRouted
	e.resident, e.missing = e.isResident, e.eachMissing
	e.routedDone = make(chan error, 1)
	for p := range o.Parts {
		if o.ExpertFormat == 0 {
			break // a model without routed experts
		}
		from, to := kernels.PartRange(o.ExpertFormat, c.ExpertIntermediate, o.Parts, p)
		shape := kernels.ExpertShape{Format: o.ExpertFormat, Hidden: c.Hidden, Intermediate: to - from}
		e.partBytes = append(e.partBytes, int64(shape.Bytes()))
	}
	var err error
	if e.attention, err = attention.New(o.Kernels, o.Team, e.cacheShape, c.Heads); err != nil {
		return nil, err
	}
	if e.model, err = model.Load(cp, o.DenseFormat, o.Team, o.Progress); err != nil {
		return nil, fmt.Errorf("loading dense weights: %w", err)
	}
	e.predictor = newPredictor(e.model)
	return e, nil
}

// Close waits for the step in progress and gives the weights' memory back. Sequences are closed by their owners.
func (e *Engine) Close() {
	e.step.Lock()
	defer e.step.Unlock()
	if !e.closed {
		e.closed = true
		e.model.Close()
	}
}

// Config is the model's configuration.
func (e *Engine) Config() *checkpoint.Config { return e.config }

// Context is the most positions of a sequence.
func (e *Engine) Context() int { return e.options.Context }

// DenseBytes is the packed size of the dense weights.
func (e *Engine) DenseBytes() int64 { return e.model.Bytes() }

// DensePlacement is where the dense weights lie that each NUMA node reads, nil on one node, and what is wrong with that, or "".
func (e *Engine) DensePlacement() (placement []model.Placement, problem string) {
	return e.model.Placement(), e.model.PlacementProblem()
}

// KVFormat is how keys and values are kept.
func (e *Engine) KVFormat() attention.Format { return e.options.KVFormat }

// PositionBytes is the memory that one position of a sequence takes.
func (e *Engine) PositionBytes() int { return e.cacheShape.PositionBytes() }
