// Package evaluation measures the quality of the running model on text. It knows the model only as an engine.
package evaluation

import (
	"context"
	"errors"
	"fmt"
	"math"

	"github.com/moepool/moepool/coordinator/budget"
	"github.com/moepool/moepool/coordinator/engine"
)

// Engine computes steps; *engine.Engine implements it.
type Engine interface {
	NewSequence() (*engine.Sequence, error)
	Step(ctx context.Context, chunks []engine.Chunk) ([]engine.Output, error)
	Context() int
}

// Perplexity is the negative log likelihood of predicted tokens.
type Perplexity struct {
	NLL    float64 // sum over the predicted tokens, natural logarithm
	Tokens int     // predicted tokens
}

// Value is exp(NLL / Tokens).
func (p Perplexity) Value() float64 { return math.Exp(p.NLL / float64(p.Tokens)) }

// Windows cuts ids into consecutive windows of size ids; the last may be shorter.
func Windows(ids []int32, size int) [][]int32 {
	var windows [][]int32
	for len(ids) > 0 {
		n := min(size, len(ids))
		windows = append(windows, ids[:n])
		ids = ids[n:]
	}
	return windows
}

// Measure computes the perplexity over windows, each on its own from position 0; every id of a window but the first is
// predicted. chunk positions are computed in one step. progress is called after each window with its NLL.
func Measure(ctx context.Context, e Engine, windows [][]int32, chunk int, progress func(window int, nll float64)) (Perplexity, error) {
	var total Perplexity
	for i, window := range windows {
		if len(window) > e.Context() {
			return total, fmt.Errorf("a window has %d tokens, the context holds %d (--context)", len(window), e.Context())
		}
		if len(window) < 2 {
			continue // nothing to predict
		}
		nll, err := windowNLL(ctx, e, window, chunk)
		if err != nil {
			return total, fmt.Errorf("window %d: %w", i, err)
		}
		total.NLL += nll
		total.Tokens += len(window) - 1
		if progress != nil {
			progress(i, nll)
		}
	}
	if total.Tokens == 0 {
		return total, errors.New("the text has fewer than two tokens")
	}
	return total, nil
}

func windowNLL(ctx context.Context, e Engine, window []int32, chunk int) (float64, error) {
	seq, err := e.NewSequence()
	if err != nil {
		return 0, err
	}
	defer seq.Close()
	nll := 0.0
	for from := 0; from < len(window)-1; from += chunk {
		to := min(from+chunk, len(window)-1) // the last id is only predicted
		out, err := e.Step(ctx, []engine.Chunk{{Sequence: seq, Tokens: window[from:to], Phase: budget.Prefill, Logits: engine.AllLogits}})
		if err != nil {
			return 0, err
		}
		if out[0].Err != nil {
			return 0, out[0].Err
		}
		vocabulary := len(out[0].Logits) / (to - from)
		for i := from; i < to; i++ {
			nll -= logProbability(out[0].Logits[(i-from)*vocabulary:][:vocabulary], window[i+1])
		}
	}
	return nll, nil
}

// logProbability is the natural logarithm of softmax(logits)[token]. It measures and decides nothing, so package math serves.
func logProbability(logits []float32, token int32) float64 {
	highest := math.Inf(-1)
	for _, l := range logits {
		highest = max(highest, float64(l))
	}
	sum := 0.0
	for _, l := range logits {
		sum += math.Exp(float64(l) - highest)
	}
	return float64(logits[token]) - highest - math.Log(sum)
}
