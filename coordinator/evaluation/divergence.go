package evaluation

import (
	"context"
	"math"
	"slices"
)

// Divergence is how far a run's predictions are from a reference run's, over the predicted tokens of the same windows. The measures are
// those of llama-perplexity's --kl-divergence; its figures count the second half of each window only, these count all of it.
type Divergence struct {
	Run, Reference Perplexity
	// KLD is the Kullback-Leibler divergence Σ p·ln(p/q) of each position in nats, p the reference's probabilities and q the run's,
	// in ascending order. Exact zeros can come out as ±1e-16 or so.
	KLD []float64
	// SquaredDifference sums (q-p)² of the probabilities of the tokens that follow.
	SquaredDifference float64
	// SameTop counts positions at which both have the same most likely token, the lower id of equals.
	SameTop int
}

// MeanKLD is the mean of KLD, in nats a token.
func (d *Divergence) MeanKLD() float64 {
	sum := 0.0
	for _, kld := range d.KLD {
		sum += kld
	}
	return sum / float64(len(d.KLD))
}

// QuantileKLD is the value that a share of the positions, 0 to 1, does not exceed; between two positions it is interpolated.
func (d *Divergence) QuantileKLD(share float64) float64 {
	at := share * float64(len(d.KLD)-1)
	lower := int(at)
	upper := min(lower+1, len(d.KLD)-1)
	return d.KLD[lower] + (at-float64(lower))*(d.KLD[upper]-d.KLD[lower])
}

// RMSDeltaP is the root of the mean squared difference of the probabilities of the tokens that follow, a fraction of 1.
func (d *Divergence) RMSDeltaP() float64 { return math.Sqrt(d.SquaredDifference / float64(len(d.KLD))) }

// SameTopP is the share of positions at which the most likely token is the same, a fraction of 1.
func (d *Divergence) SameTopP() float64 { return float64(d.SameTop) / float64(len(d.KLD)) }

// Compare runs the reference and other engines over windows, chunk by chunk in turn, so that no more logits are held than those of one
// chunk each, and gives the divergence of each run. progress is called after each window. Windows are predicted as Measure does it.
func Compare(ctx context.Context, reference Engine, runs []Engine, windows [][]int32, chunk int, progress func(window int)) ([]*Divergence, error) {
	divergences := make([]*Divergence, len(runs))
	for i := range divergences {
		divergences[i] = &Divergence{}
	}
	var p prediction
	err := predict(ctx, append([]Engine{reference}, runs...), windows, chunk, func(logits [][]float32, next int32) {
		p.set(logits[0], next)
		for i, d := range divergences {
			d.add(&p, logits[i+1])
		}
	}, orNothing(progress))
	if err != nil {
		return nil, err
	}
	for _, d := range divergences {
		slices.Sort(d.KLD)
	}
	return divergences, nil
}

// prediction is the reference's at one position.
type prediction struct {
	logits        []float32
	probabilities []float64
	sum           float64 // ln Σ e^logit
	next          int32   // the token that follows
	top           int
}

func (p *prediction) set(logits []float32, next int32) {
	p.logits, p.next, p.sum, p.top = logits, next, logSumExp(logits), top(logits)
	p.probabilities = p.probabilities[:0]
	for _, l := range logits {
		p.probabilities = append(p.probabilities, math.Exp(float64(l)-p.sum))
	}
}

// top is the index of the largest logit, the first of equals.
func top(logits []float32) int {
	best := 0
	for i, l := range logits {
		if l > logits[best] {
			best = i
		}
	}
	return best
}

// add counts one position of a run.
func (d *Divergence) add(p *prediction, run []float32) {
	sum := logSumExp(run)
	kld := sum - p.sum // plus Σ p·(difference of logits)
	for i, probability := range p.probabilities {
		kld += probability * (float64(p.logits[i]) - float64(run[i]))
	}
	d.KLD = append(d.KLD, kld)
	if top(run) == p.top {
		d.SameTop++
	}
	lnP, lnQ := float64(p.logits[p.next])-p.sum, float64(run[p.next])-sum
	difference := math.Exp(lnQ) - math.Exp(lnP)
	d.SquaredDifference += difference * difference
	d.Run.NLL -= lnQ
	d.Run.Tokens++
	d.Reference.NLL -= lnP
	d.Reference.Tokens++
}
