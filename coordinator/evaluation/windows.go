package evaluation

import (
	"context"
	"errors"
	"fmt"

	"github.com/moepool/moepool/coordinator/budget"
	"github.com/moepool/moepool/coordinator/engine"
)

// Engine computes steps; *engine.Engine implements it.
type Engine interface {
	NewSequence() (*engine.Sequence, error)
	Step(ctx context.Context, chunks []engine.Chunk) ([]engine.Output, error)
	Context() int
}

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

// predict computes each window on its own from position 0 with every engine, chunk positions in one step, the engines in turn; so the
// logits of one chunk are all that is held. score gets each position's logits [engines][vocabulary] and the id that follows; every
// id of a window but its first is one that follows. done is called after each window that has any.
func predict(ctx context.Context, engines []Engine, windows [][]int32, chunk int, score func(logits [][]float32, next int32), done func(window int)) error {
	if chunk < 1 {
		return fmt.Errorf("chunks of %d positions", chunk)
	}
	scored := false
	for i, window := range windows {
		for _, e := range engines {
			if len(window) > e.Context() {
				return fmt.Errorf("a window has %d tokens, the context holds %d (--context)", len(window), e.Context())
			}
		}
		if len(window) < 2 {
			continue // nothing to predict
		}
		if err := predictWindow(ctx, engines, window, chunk, score); err != nil {
			return fmt.Errorf("window %d: %w", i, err)
		}
		scored = true
		done(i)
	}
	if !scored {
		return errors.New("the text has fewer than two tokens")
	}
	return nil
}

func predictWindow(ctx context.Context, engines []Engine, window []int32, chunk int, score func(logits [][]float32, next int32)) error {
	sequences := make([]*engine.Sequence, len(engines))
	for i, e := range engines {
		seq, err := e.NewSequence()
		if err != nil {
			return err
		}
		defer seq.Close()
		sequences[i] = seq
	}
	all, position := make([][]float32, len(engines)), make([][]float32, len(engines))
	for from := 0; from < len(window)-1; from += chunk {
		to := min(from+chunk, len(window)-1) // the last id is only predicted
		for i, e := range engines {
			out, err := e.Step(ctx, []engine.Chunk{{Sequence: sequences[i], Tokens: window[from:to], Phase: budget.Prefill, Logits: engine.AllLogits}})
			if err != nil {
				return err
			}
			if out[0].Err != nil {
				return out[0].Err
			}
			all[i] = out[0].Logits
			if len(all[i]) != len(all[0]) {
				return fmt.Errorf("the models give %d and %d logits a position: their vocabularies differ", len(all[0])/(to-from), len(all[i])/(to-from))
			}
		}
		vocabulary := len(all[0]) / (to - from)
		for p := from; p < to; p++ {
			for i := range all {
				position[i] = all[i][(p-from)*vocabulary:][:vocabulary]
			}
			score(position, window[p+1])
		}
	}
	return nil
}
