package evaluation

import (
	"context"
	"math"
)

// Perplexity is the negative log likelihood of predicted tokens.
type Perplexity struct {
	NLL    float64 // sum over the predicted tokens, natural logarithm
	Tokens int     // predicted tokens
}

// Value is exp(NLL / Tokens).
func (p Perplexity) Value() float64 { return math.Exp(p.NLL / float64(p.Tokens)) }

// Measure computes the perplexity over windows, each on its own from position 0; every id of a window but the first is
// predicted. chunk positions are computed in one step. progress is called after each window.
func Measure(ctx context.Context, e Engine, windows [][]int32, chunk int, progress func(window int)) (Perplexity, error) {
	var total Perplexity
	err := predict(ctx, []Engine{e}, windows, chunk, func(logits [][]float32, next int32) {
		total.NLL -= float64(logits[0][next]) - logSumExp(logits[0])
		total.Tokens++
	}, orNothing(progress))
	return total, err
}

func orNothing(progress func(window int)) func(int) {
	if progress == nil {
		return func(int) {}
	}
	return progress
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
