package evaluation

import (
	"context"
	"errors"
	"fmt"

	"github.com/moepool/moepool/coordinator/budget"
	"github.com/moepool/moepool/coordinator/engine"
)

// Continue computes each prompt in the prefill phase, one after another, and then n-1 tokens of a greedy continuation in the decode phase,
// Feed.Rows prompts at once (Chunk does not count here), and gives the continuations [prompts][n]. End tokens don't end one.
func (f Feed) Continue(ctx context.Context, e Engine, prompts [][]int32, n int) ([][]int32, error) {
	continuations := make([][]int32, len(prompts))
	return continuations, f.follow(ctx, e, prompts, n, func(prompt int, best int32) int32 {
		continuations[prompt] = append(continuations[prompt], best)
		return best
	})
}

// Agreement computes greedy continuations of prompts and gives how many of their first tokens are those of the reference's continuations.
// Up to the first difference a continuation and the reference's have the same tokens behind them; from there on the reference's tokens are
// computed, so that a step has as many rows as the reference's had.
func (f Feed) Agreement(ctx context.Context, e Engine, prompts, reference [][]int32) ([]int, error) {
	agreed, differs, at := make([]int, len(prompts)), make([]bool, len(prompts)), make([]int, len(prompts))
	n := 0
	for _, r := range reference {
		n = max(n, len(r))
	}
	return agreed, f.follow(ctx, e, prompts, n, func(prompt int, best int32) int32 {
		want := reference[prompt][at[prompt]]
		at[prompt]++
		differs[prompt] = differs[prompt] || best != want
		if !differs[prompt] {
			agreed[prompt]++
		}
		return want
	})
}

// follow computes n tokens behind each prompt. choose is given the most likely next token of a prompt, the lower id of equals, and says
// which one is taken.
func (f Feed) follow(ctx context.Context, e Engine, prompts [][]int32, n int, choose func(prompt int, best int32) int32) error {
	if f.Rows < 1 {
		return fmt.Errorf("%d rows", f.Rows)
	}
	for from := 0; from < len(prompts); from += f.Rows {
		to := min(from+f.Rows, len(prompts))
		if err := f.followGroup(ctx, e, prompts[from:to], n, func(i int, best int32) int32 { return choose(from+i, best) }); err != nil {
			return err
		}
	}
	return nil
}

func (f Feed) followGroup(ctx context.Context, e Engine, prompts [][]int32, n int, choose func(i int, best int32) int32) (err error) {
	chunks := make([]engine.Chunk, len(prompts))
	defer func() {
		for _, c := range chunks {
			if c.Sequence != nil {
				c.Sequence.Close()
			}
		}
	}()
	for i, prompt := range prompts {
		if len(prompt)+n-1 > e.Context() {
			return fmt.Errorf("a prompt of %d tokens and %d behind it: the context holds %d (--context)", len(prompt), n-1, e.Context())
		}
		chunk := &chunks[i]
		if chunk.Sequence, err = e.NewSequence(); err != nil {
			return err
		}
		chunk.Tokens, chunk.Phase, chunk.Budget = prompt, budget.Prefill, f.Budget
		if err := f.followStep(ctx, e, chunks[i:i+1], func(_ int, best int32) int32 { return choose(i, best) }); err != nil {
			return err
		}
	}
	for range n - 1 {
		if err := f.followStep(ctx, e, chunks, choose); err != nil {
			return err
		}
	}
	return nil
}

// followStep computes one step and replaces the tokens of chunks by the next ones, to be computed in the decode phase.
func (f Feed) followStep(ctx context.Context, e Engine, chunks []engine.Chunk, choose func(i int, best int32) int32) error {
	outputs, err := e.Step(ctx, chunks)
	if err != nil {
		return fmt.Errorf("greedy continuation: %w", err)
	}
	for i, out := range outputs {
		if out.Err != nil {
			return fmt.Errorf("greedy continuation: %w", out.Err)
		}
		if len(out.Logits) == 0 {
			return errors.New("greedy continuation: a step gave no logits")
		}
		chunks[i].Tokens, chunks[i].Phase = []int32{choose(i, int32(top(out.Logits)))}, budget.Decode
	}
	return nil
}
