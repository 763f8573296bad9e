package engine

import (
	"context"
	"errors"
	"fmt"

	"github.com/moepool/moepool/coordinator/budget"
)

// Chunk is consecutive positions of one sequence in a step.
type Chunk struct {
	Sequence *Sequence
	Tokens   []int32
	Phase    budget.Phase
	Logits   LogitsWanted
	// Into is memory for the logits, such as those of the step before; it is used if it suffices and no other chunk wants logits. It may
	// be nil.
	Into []float32
	// Budget is the policy for the chunk's request; nil is the engine's. A step has one budget: all its chunks name the same.
	Budget *budget.Policy
}

// LogitsWanted says for which positions of a chunk the LM head is computed. Of the last layer, only keys and values are computed for
// the others: there the router chooses nothing for them, a budget doesn't see them, and experts are not asked for them.
type LogitsWanted uint8

// What can be wanted.
const (
	LastLogits LogitsWanted = iota
	AllLogits
	NoLogits
)

// Output is the result of one chunk: Logits [n, vocabulary] for n wanted positions, or Err (that sequence only, which then has
// its former length). The logits belong to the caller.
type Output struct {
	Logits []float32
	Err    error
}

// ContextError is the error of a chunk that would make its sequence longer than the context.
type ContextError struct {
	Length, New, Context int
}

func (e *ContextError) Error() string {
	return fmt.Sprintf("%d positions and %d more are %d, but the context has %d", e.Length, e.New, e.Length+e.New, e.Context)
}

// TokenError is the error of a chunk with a token id outside the vocabulary.
type TokenError struct {
	Token      int32
	Vocabulary int
}

func (e *TokenError) Error() string {
	return fmt.Sprintf("token %d: ids are from 0 to %d", e.Token, e.Vocabulary-1)
}

// Step computes one batch of chunks of different sequences and gives an output for each. A chunk that can't be computed (a token
// outside the vocabulary, more positions than the context, no memory for its cache, numbers that are not finite: kernels.ErrNotFinite
// or kernels.ErrOverflow) fails alone: the others' bits are what they would be without it, except for what a budget drops. An error of the step (a worker died, ctx ended, a sequence given twice or closed)
// gives all sequences their former length, so that the same step can be tried again.
func (e *Engine) Step(ctx context.Context, chunks []Chunk) ([]Output, error) {
	e.step.Lock()
	defer e.step.Unlock()
	if e.closed {
		return nil, fmt.Errorf("engine: %w", ErrClosed)
	}
	if err := e.validate(chunks); err != nil {
		return nil, err
	}
	b := &e.batch
	b.begin(e, chunks)
	err := e.compute(ctx, b)
	outputs := make([]Output, len(chunks))
	for i, c := range chunks {
		if err != nil || b.failed[i] != nil {
			c.Sequence.cache.Truncate(c.Sequence.length)
			outputs[i] = Output{Err: b.failed[i]}
			continue
		}
		c.Sequence.length += len(c.Tokens)
		outputs[i] = Output{Logits: b.logits[i]}
	}
	b.end()
	if err != nil {
		return nil, err
	}
	return outputs, nil
}

// validate finds what is wrong with a step as a whole.
func (e *Engine) validate(chunks []Chunk) error {
	seen := make(map[*Sequence]bool, len(chunks))
	for i, c := range chunks {
		switch {
		case c.Sequence == nil || c.Sequence.engine != e:
			return fmt.Errorf("chunk %d: its sequence is not of this engine", i)
		case c.Sequence.closed:
			return fmt.Errorf("chunk %d: sequence: %w", i, ErrClosed)
		case seen[c.Sequence]:
			return fmt.Errorf("chunk %d: its sequence is in the step twice", i)
		}
		seen[c.Sequence] = true
		if e.policy(c) != e.policy(chunks[0]) {
			return fmt.Errorf("chunk %d: its expert budget is %v, that of the step %v", i, e.policy(c), e.policy(chunks[0]))
		}
	}
	return nil
}

// policy is the expert budget of a chunk.
func (e *Engine) policy(c Chunk) budget.Policy {
	if c.Budget != nil {
		return *c.Budget
	}
	return e.options.Budget
}

// check finds what is wrong with one chunk, and reserves its cache.
func (e *Engine) check(c Chunk) error {
	if len(c.Tokens) == 0 {
		return errors.New("a chunk without tokens")
	}
	length := c.Sequence.length
	if length+len(c.Tokens) > e.options.Context {
		return &ContextError{Length: length, New: len(c.Tokens), Context: e.options.Context}
	}
	for _, token := range c.Tokens {
		if token < 0 || int(token) >= e.config.Vocabulary {
			return &TokenError{Token: token, Vocabulary: e.config.Vocabulary}
		}
	}
	return c.Sequence.cache.Reserve(length + len(c.Tokens))
}

// compute runs all layers and the LM head over a batch.
func (e *Engine) compute(ctx context.Context, b *batch) error {
	var residency Residency
	if !b.budget.Off() && e.options.Experts != nil {
		residency = e.options.Experts.Snapshot()
	}
	if err := e.embed(b); err != nil {
		return err
	}
	for i := range e.model.Layers {
		if err := ctx.Err(); err != nil {
			return fmt.Errorf("before layer %d: %w", i, err)
		}
		b.compact(e.config)
		if b.rows == 0 {
			return nil
		}
		b.layer, b.weights = i, &e.model.Layers[i]
		if err := e.attend(b, b.weights); err != nil {
			return fmt.Errorf("layer %d: attention: %w", i, err)
		}
		if b.rows == 0 { // no logits are wanted
			return nil
		}
		if err := e.feedForward(ctx, b, b.weights, residency); err != nil {
			return fmt.Errorf("layer %d: %w", i, err)
		}
	}
	b.layer = len(e.model.Layers)
	return e.head(b)
}
