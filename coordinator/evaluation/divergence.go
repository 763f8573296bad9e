package evaluation

import "math"

// Divergence is how far a run's predictions are from a reference run's, over the predicted tokens of the same windows. The measures are
// those of llama-perplexity's --kl-divergence (mean, percentile and maximum of the divergence, RMS Δp, same top p, each by the same
// formula, percentiles interpolated alike). What differs: there, only the second half of each window counts, each window begins with the
// BOS token if the model has one, the reference's log probabilities are kept in 16 bits, at most 16 below the largest logit, and tokens
// whose stored log probability is not above -16 are left out of the sum. Here every token of a window but its first counts, windows are
// the text's own tokens, and the reference's logits are exact, so that a run that gives the same bits diverges by exactly 0.
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

// MeanKLDError is the standard error of MeanKLD, as llama-perplexity gives it: positions of a text are not independent, so the true one is
// somewhat larger. It is NaN for a single position.
func (d *Divergence) MeanKLDError() float64 {
	mean, squares := d.MeanKLD(), 0.0
	for _, kld := range d.KLD {
		squares += (kld - mean) * (kld - mean)
	}
	n := float64(len(d.KLD))
	return math.Sqrt(squares / n / (n - 1))
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
	d.Run.count(lnQ)
	d.Reference.count(lnP)
}
