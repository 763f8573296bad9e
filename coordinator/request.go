package coordinator

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/moepool/moepool/coordinator/budget"
	"github.com/moepool/moepool/coordinator/engine"
	"github.com/moepool/moepool/coordinator/generation"
	"github.com/moepool/moepool/coordinator/sampling"
	"github.com/moepool/moepool/coordinator/template"
)

// Prompt is what a request starts from: exactly one of the fields.
type Prompt struct {
	Messages []template.Message // through the chat template; without one the contents are joined
	Raw      string             // as it is, with the tokenizer's own special tokens
	Tokens   []int32            // as they are
}

// Encode turns a prompt into token ids.
func (c *Coordinator) Encode(p Prompt) ([]int32, error) {
	switch {
	case p.Tokens != nil:
		return p.Tokens, nil
	case p.Messages == nil:
		return c.Tokenizer.Encode(p.Raw, true), nil
	case c.Template == nil:
		text := ""
		for _, m := range p.Messages {
			text += m.Content
		}
		return c.Tokenizer.Encode(text, true), nil
	}
	text, err := c.Template.Render(p.Messages, true)
	if err != nil {
		return nil, fmt.Errorf("chat template: %w", err)
	}
	return c.Tokenizer.Encode(text, false), nil
}

// Request is a prompt with its parameters.
type Request struct {
	Prompt       Prompt
	Generated    []int32 // the beginning of the answer, given before by this or another coordinator; it is continued
	MaxTokens    int     // of the answer, the generated ones included
	Sampling     sampling.Params
	Stop         []string
	IgnoreEOS    bool
	PrefillChunk int
	KeepLogits   bool
	Budget       *budget.Policy // of this request; nil is the coordinator's
}

// Context is the most positions of a sequence.
func (c *Coordinator) Context() int {
	if c.options.Context > 0 {
		return c.options.Context
	}
	return min(c.Checkpoint.Config().MaxPositions, engine.DefaultContext)
}

// Check finds what is wrong with a request without computing anything; it may be called before Start.
func (c *Coordinator) Check(q Request) error {
	_, err := c.prepare(q)
	return err
}

// CheckBudget finds what makes no sense of a budget for this model.
func (c *Coordinator) CheckBudget(p budget.Policy) error {
	config := c.Checkpoint.Config()
	if config.Experts == 0 {
		return nil // nothing is ever dropped
	}
	return p.Check(config.Experts, config.TopK)
}

// prepare encodes and validates a request.
func (c *Coordinator) prepare(q Request) (generation.Request, error) {
	prompt, err := c.Encode(q.Prompt)
	if err != nil {
		return generation.Request{}, err
	}
	g := generation.Request{
		Prompt: prompt, Generated: q.Generated, Budget: q.Budget, MaxTokens: q.MaxTokens, Sampling: q.Sampling, Stop: q.Stop,
		PrefillChunk: q.PrefillChunk, KeepLogits: q.KeepLogits,
	}
	if g.Budget == nil {
		own := c.Budget()
		g.Budget = &own
	}
	if !q.IgnoreEOS {
		g.EndTokens = c.Checkpoint.Config().EOS
	}
	if err := c.CheckBudget(*g.Budget); err != nil {
		return g, err
	}
	vocabulary := c.Checkpoint.Config().Vocabulary
	for _, ids := range [][]int32{prompt, q.Generated} {
		for _, id := range ids {
			if id < 0 || int(id) >= vocabulary {
				return g, &engine.TokenError{Token: id, Vocabulary: vocabulary}
			}
		}
	}
	return g, g.Validate(c.Context())
}

// Generate answers one request; requests wait for each other. With a session, what the session already computed of the
// prompt is not computed again.
func (c *Coordinator) Generate(ctx context.Context, q Request, session *Session, emit func(generation.Piece) error) (*generation.Result, error) {
	g, err := c.prepare(q)
	if err != nil {
		return nil, err
	}
	whole := ctx
	ctx, stop, err := c.leading(ctx)
	if err != nil {
		return nil, err
	}
	defer stop()
	select {
	case c.turn <- struct{}{}:
		defer func() { <-c.turn }()
	case <-ctx.Done():
		return nil, ended(whole, ctx)
	}
	if session == nil {
		session = c.NewSession()
		defer session.Close()
	}
	seq, err := session.resume(slices.Concat(g.Prompt, g.Generated))
	if err != nil {
		return nil, err
	}
	before := c.Engine.Totals()
	result, err := generation.Run(ctx, c.Engine, seq, c.Tokenizer, g, emit)
	result.Used = c.Engine.Totals().Since(&before) // one request runs at a time
	session.tokens = append(append(session.tokens[:0], g.Prompt...), result.Tokens...)
	if err != nil && ctx.Err() != nil {
		err = ended(whole, ctx) // why, instead of where
	}
	return result, err
}

// ended says why a request ended before its answer: its own context did, or the leadership.
func ended(request, leading context.Context) error {
	cause := context.Cause(leading)
	if request.Err() != nil || errors.Is(cause, ErrNotLeading) {
		return cause
	}
	return fmt.Errorf("%w any more: %w", ErrNotLeading, cause)
}

// Session keeps a sequence between requests, for chats: a prompt that continues the former one reuses its KV cache.
type Session struct {
	coordinator *Coordinator
	sequence    *engine.Sequence
	tokens      []int32 // what the sequence was computed from; it may hold fewer
}

// NewSession starts an empty session.
func (c *Coordinator) NewSession() *Session { return &Session{coordinator: c} }

// resume gives the sequence, cut back to what it has in common with the prompt.
func (s *Session) resume(prompt []int32) (*engine.Sequence, error) {
	if s.sequence == nil {
		seq, err := s.coordinator.Engine.NewSequence()
		if err != nil {
			return nil, err
		}
		s.sequence = seq
	}
	common := 0
	for common < len(s.tokens) && common < len(prompt) && common < s.sequence.Length() && s.tokens[common] == prompt[common] {
		common++
	}
	return s.sequence, s.sequence.Truncate(common)
}

// Close frees the KV cache.
func (s *Session) Close() {
	if s.sequence != nil {
		s.sequence.Close()
	}
}
