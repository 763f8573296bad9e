package evaluation

import (
	"context"
	"math"
	"time"
)

// Perplexity is the negative log likelihood of predicted tokens.
type Perplexity struct {
	NLL    float64 // sum over the predicted tokens, natural logarithm
	Tokens int     // predicted tokens
}

// Value is exp(NLL / Tokens).
func (p Perplexity) Value() float64 { return math.Exp(p.NLL / float64(p.Tokens)) }

func (p *Perplexity) count(logProbability float64) {
	p.NLL -= logProbability
	p.Tokens++
}

// Result is what a run over windows gave.
type Result struct {
	Perplexity
	Divergence *Divergence   // from a reference; nil without one
	Elapsed    time.Duration // that the engine's steps took; reading, scoring and writing are left out
}

// TokensPerSecond is the speed of the engine's steps, in predicted tokens.
func (r *Result) TokensPerSecond() float64 { return float64(r.Tokens) / r.Elapsed.Seconds() }

// Measure computes the perplexity over windows, each on its own from position 0; every id of a window but the first is
// predicted.
func Measure(ctx context.Context, e Engine, windows [][]int32, f Feed) (r Result, err error) {
	r.Elapsed, err = f.predict(ctx, e, windows, func(at place, logits []float32) error {
		next := windows[at.window][at.position+1]
		r.count(float64(logits[next]) - logSumExp(logits))
		return nil
	})
	return r, err
}

// logSumExp is ln Σ e^logit: a logit minus it is the natural logarithm of the token's probability.
func logSumExp(logits []float32) float64 {
	highest := math.Inf(-1)
	for _, l := range logits {
		highest = max(highest, float64(l))
	}
	sum := 0.0
	for _, l := range logits {
		sum += math.Exp(float64(l) - highest)
	}
	return highest + math.Log(sum)
}
