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

// Compare runs both engines over windows, chunk by chunk in turn, so that no more logits are held than those of two chunks.
// progress is called after each window. Windows are predicted as Measure does it.
func Compare(ctx context.Context, run, reference Engine, windows [][]int32, chunk int, progress func(window int)) (*Divergence, error) {
	d := &Divergence{}
	err := predict(ctx, []Engine{run, reference}, windows, chunk, func(logits [][]float32, next int32) {
		d.add(logits[0], logits[1], next)
	}, orNothing(progress))
	slices.Sort(d.KLD)
	return d, err
}

// add counts one position.
func (d *Divergence) add(run, reference []float32, next int32) {
	runSum, referenceSum := logSumExp(run), logSumExp(reference)
	kld := 0.0
	topOfRun, topOfReference := 0, 0
	for i, r := range reference {
		lnP := float64(r) - referenceSum
		kld += math.Exp(lnP) * (lnP - (float64(run[i]) - runSum))
		if r > reference[topOfReference] {
			topOfReference = i
		}
		if run[i] > run[topOfRun] {
			topOfRun = i
		}
	}
	d.KLD = append(d.KLD, kld)
	if topOfRun == topOfReference {
		d.SameTop++
	}
	lnQ, lnP := float64(run[next])-runSum, float64(reference[next])-referenceSum
	difference := math.Exp(lnQ) - math.Exp(lnP)
	d.SquaredDifference += difference * difference
	d.Run.NLL -= lnQ
	d.Run.Tokens++
	d.Reference.NLL -= lnP
	d.Reference.Tokens++
}
