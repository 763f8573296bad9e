package engine

import (
	"errors"
	"fmt"

	"github.com/moepool/moepool/coordinator/model"
	"github.com/moepool/moepool/coordinator/router"
)

// Of experts that are not in memory, those of the next layer are predicted while a layer's are still to be computed: norm and router of
// the next layer are applied to the residual stream as it is after this layer's attention, which lacks only what this layer's experts and the next
// attention add. Workers read what is predicted while their disk is idle. A prediction changes no bit of the step; where all experts are in
// memory it isn't made.

// Prefetch says when the next layer's experts are predicted.
type Prefetch uint8

// The values of Prefetch.
const (
	PrefetchAuto Prefetch = iota // while experts have been missing lately, at workers that keep a ledger
	PrefetchOn                   // always
	PrefetchOff                  // never
)

var prefetchNames = [...]string{"auto", "on", "off"}

func (p Prefetch) String() string { return prefetchNames[p] }

// ParsePrefetch reads auto, on or off.
func ParsePrefetch(s string) (Prefetch, error) {
	for p, name := range prefetchNames {
		if s == name {
			return Prefetch(p), nil
		}
	}
	return 0, fmt.Errorf("%q is not auto, on or off", s)
}

var errPrefetch = errors.New("engine: Options.Prefetch is none of auto, on and off")

// Prediction is what the rows of a call will probably want of a later layer.
type Prediction struct {
	Layer   int
	Choices []router.Choice // per row of the call; nil: nothing was predicted
}

// LayerPrediction is how good the predictions of one layer's experts were.
type LayerPrediction struct {
	Layer int
	Rows  int64 // whose choice was predicted
	// Mass is the combine weight of the experts that the router then chose for them, before the budget, and Recalled that of those among them
	// that had been predicted for the same row: Recalled/Mass is the recall by gate mass.
	Mass, Recalled float64
}

// fullSteps is for how many steps without a missing expert predictions go on.
const fullSteps = 8

// predictor is the state of the predictions.
type predictor struct {
	next  []int // by layer: the layer whose experts are predicted there; 0: none
	quiet int   // calls of experts since the last one with a miss, at most patience
	// patience is after how many such calls predictions end.
	patience int
}

// newPredictor predicts the experts of the next layer that has some.
func newPredictor(m *model.Model) predictor {
	p := predictor{next: make([]int, len(m.Layers))}
	for layer := len(m.Layers) - 2; layer >= 0; layer-- {
		p.next[layer] = p.next[layer+1]
		if m.Layers[layer+1].Router != nil {
			p.next[layer] = layer + 1
		}
	}
	for i := range m.Layers {
		if m.Layers[i].Router != nil {
			p.patience += fullSteps
		}
	}
	p.quiet = p.patience
	return p
}

// saw takes what a call of experts found. Workers without a ledger follow no hints.
func (p *predictor) saw(s ExpertStats) {
	if s.Misses > 0 && s.Unledgered == 0 {
		p.quiet = 0
	} else if p.quiet < p.patience {
		p.quiet++
	}
}

// target is the layer whose experts are predicted for the batch in its present layer; 0: none. Batches of more rows than there are experts to
// choose from want nearly all of them anyway, and what they want in the next layer they find out as soon as their many reads end.
func (e *Engine) target(b *batch) int {
	switch {
	case e.options.Prefetch == PrefetchOff, e.options.Prefetch == PrefetchAuto && e.predictor.quiet >= e.predictor.patience:
		return 0
	case b.rows > 1 && b.rows*e.config.TopK > e.config.Experts:
		return 0
	}
	return e.predictor.next[b.layer]
}

// predicted is a prediction until it can be compared with what the router chooses.
type predicted struct {
	Prediction
	chunk, position []int // of each row
}

// beginPrediction prepares the rows for the router of the batch's target layer and gives its product, which is computed beside those of the
// present layer.
func (e *Engine) beginPrediction(b *batch) (product, error) {
	c, target := e.config, b.target
	b.nextNormed = resize(b.nextNormed, b.rows*c.Hidden)
	b.nextScores = resize(b.nextScores, b.rows*c.Experts)
	b.nextFloats.Reset(false, b.rows, c.Hidden)
	if len(b.predicted) == 0 {
		b.predicted = make([]predicted, len(e.model.Layers))
	}
	p := &b.predicted[target]
	p.Layer = target
	p.chunk, p.position = append(p.chunk[:0], b.chunk[:b.rows]...), append(p.position[:0], b.position[:b.rows]...)
	p.Choices = resize(p.Choices[:cap(p.Choices)], b.rows)
	err := e.rowPass(b, normForTarget)
	return product{b.nextScores, *e.model.Layers[target].Router, &b.nextFloats}, err
}

// normForTarget prepares a row for the router of the target layer. A row that can't be predicted is no error.
func normForTarget(e *Engine, b *batch, row int) error {
	c, set := e.config, e.options.Kernels
	normed := at(b.nextNormed, row, c.Hidden)
	set.RMSNorm(normed, at(b.hidden, row, c.Hidden), e.model.Layers[b.target].PostAttentionNorm, c.NormEpsilon)
	if !finite(normed) {
		clear(normed)
	}
	return set.Prepare(&b.nextFloats, row, normed)
}

// endPrediction makes the choices once the scores are there.
func (e *Engine) endPrediction(b *batch) (Prediction, error) {
	if b.target == 0 {
		return Prediction{}, nil
	}
	err := e.rowPass(b, predict)
	return b.predicted[b.target].Prediction, err
}

// predict is the choice of the target layer's router for a row.
func predict(e *Engine, b *batch, row int) error {
	c, choice := e.config, &b.predicted[b.target].Choices[row]
	scores := at(b.nextScores, row, c.Experts)
	if b.lost(row) || !finite(scores) {
		choice.Experts, choice.Weights = choice.Experts[:0], choice.Weights[:0]
		return nil
	}
	router.TopK(e.options.Kernels, choice, scores, c.TopK, c.NormalizeTopK)
	return nil
}

// judge compares what was predicted for the present layer with what the router chose. Rows may have left the batch meanwhile.
func (e *Engine) judge(b *batch) {
	if len(b.predicted) == 0 || len(b.predicted[b.layer].chunk) == 0 {
		return
	}
	p := &b.predicted[b.layer]
	seen := LayerPrediction{Layer: b.layer}
	row := 0
	for i := range p.chunk {
		for row < b.rows && (b.chunk[row] < p.chunk[i] || b.chunk[row] == p.chunk[i] && b.position[row] < p.position[i]) {
			row++
		}
		if row == b.rows {
			break
		}
		if b.chunk[row] != p.chunk[i] || b.position[row] != p.position[i] || len(p.Choices[i].Experts) == 0 {
			continue
		}
		seen.Rows++
		mass, recalled := recall(&b.choices[row], &p.Choices[i])
		seen.Mass, seen.Recalled = seen.Mass+mass, seen.Recalled+recalled
	}
	p.chunk = p.chunk[:0]
	e.countPrediction(seen)
}

// recall is the weight of a choice, and of that the part whose experts were predicted. Both have ascending ids.
func recall(choice, predicted *router.Choice) (mass, recalled float64) {
	at := 0
	for i, expert := range choice.Experts {
		w := float64(choice.Weights[i])
		mass += w
		for at < len(predicted.Experts) && predicted.Experts[at] < expert {
			at++
		}
		if at < len(predicted.Experts) && predicted.Experts[at] == expert {
			recalled += w
		}
	}
	return mass, recalled
}

// forgetPredictions is called at the beginning of a step: the one before may have ended early.
func (b *batch) forgetPredictions() {
	for i := range b.predicted {
		b.predicted[i].chunk = b.predicted[i].chunk[:0]
	}
}

// countPrediction adds the judgement of one layer.
func (e *Engine) countPrediction(seen LayerPrediction) {
	e.counting.Lock()
	defer e.counting.Unlock()
	if e.predictions == nil {
		e.predictions = make([]LayerPrediction, len(e.model.Layers))
	}
	p := &e.predictions[seen.Layer]
	p.Layer = seen.Layer
	p.Rows += seen.Rows
	p.Mass += seen.Mass
	p.Recalled += seen.Recalled
}

// Predictions gives for each layer whose experts were predicted how good that was. It doesn't wait for a step in progress.
func (e *Engine) Predictions() []LayerPrediction {
	e.counting.Lock()
	defer e.counting.Unlock()
	var all []LayerPrediction
	for _, p := range e.predictions {
		if p.Rows > 0 {
			all = append(all, p)
		}
	}
	return all
}
