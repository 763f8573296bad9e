// Package generation owns one answer: prefill in chunks, sampling token by token, stop tokens and stop strings, streaming
// text, timings. It knows the model only as an Engine and text only as a token decoder.
//
// An answer can be continued elsewhere: with the tokens that it gave already in Request.Generated, tokens, text and the reason of its
// end are those of the unbroken one. The sampler depends on seed and position alone, and what was decoded and held back for a stop
// string is found again by decoding the given tokens. (What a budget drops depends on residency and is not repeated.)
package generation

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/moepool/moepool/coordinator/budget"
	"github.com/moepool/moepool/coordinator/engine"
	"github.com/moepool/moepool/coordinator/sampling"
	"github.com/moepool/moepool/coordinator/tokenizer"
)

// Why an answer ended.
const (
	FinishStop   = "stop"   // an end token or a stop string
	FinishLength = "length" // MaxTokens, or the context is full
	FinishError  = "error"
)

// DefaultPrefillChunk is the number of prompt positions of one step when Request.PrefillChunk is 0.
const DefaultPrefillChunk = 512

// Engine computes steps; *engine.Engine implements it.
type Engine interface {
	Step(ctx context.Context, chunks []engine.Chunk) ([]engine.Output, error)
	Context() int
}

// Request is what one answer needs.
type Request struct {
	Prompt       []int32 // the whole prompt, the positions that the sequence holds already included
	Generated    []int32 // the beginning of the answer, given before: it is computed like a prompt, and not emitted again
	MaxTokens    int     // of the answer, the generated ones included
	Sampling     sampling.Params
	Stop         []string
	EndTokens    []int // ids that end the answer; none with --ignore-eos
	PrefillChunk int
	KeepLogits   bool
	Budget       *budget.Policy // nil is the engine's
}

// Piece is streamed while an answer grows: one new token and the text that became certain with it.
type Piece struct {
	Token int32
	Text  string
}

// Result is a finished answer. It is filled as far as it got when Run returns an error.
type Result struct {
	Tokens       []int32 // generated ids, those of Request.Generated and an end token included
	Given        int     // how many of Tokens are Request.Generated
	Text         string  // of all tokens, without end token and stop string
	FinishReason string
	PromptTokens int
	Prefill      time.Duration // until the first token was sampled
	Decode       time.Duration // from there to the last
	Logits       []float32     // [prompt+generated-1, vocabulary] with KeepLogits
	Used         engine.Totals // what it cost in experts; whoever shares out the engine fills it
}

// New is how many tokens this run computed.
func (r *Result) New() int { return len(r.Tokens) - r.Given }

// TokensPerSecond is the decode speed: new tokens after the first over the time they took; 0 if there is only one.
func (r *Result) TokensPerSecond() float64 {
	if r.New() < 2 || r.Decode <= 0 {
		return 0
	}
	return float64(r.New()-1) / r.Decode.Seconds()
}

// ErrEmptyPrompt is the error of a prompt without tokens.
var ErrEmptyPrompt = errors.New("the prompt has no tokens")

// Validate says what is wrong with a request, against the engine's context.
func (q *Request) Validate(contextLength int) error {
	if len(q.Prompt) == 0 {
		return ErrEmptyPrompt
	}
	if len(q.Prompt) > contextLength {
		return fmt.Errorf("the prompt has %d tokens, the context holds %d (--context)", len(q.Prompt), contextLength)
	}
	if q.MaxTokens < 1 {
		return fmt.Errorf("max tokens is %d, it must be at least 1", q.MaxTokens)
	}
	if len(q.Generated) > q.MaxTokens {
		return fmt.Errorf("max tokens is %d, and %d tokens of the answer are given already", q.MaxTokens, len(q.Generated))
	}
	if q.PrefillChunk < 0 {
		return fmt.Errorf("prefill chunk is %d, it must be at least 1 (0: %d)", q.PrefillChunk, DefaultPrefillChunk)
	}
	for _, s := range q.Stop {
		if s == "" {
			return errors.New("a stop string is empty")
		}
	}
	return q.Sampling.Validate()
}

// Run computes an answer on seq, which may hold a beginning of prompt and generated tokens. emit is called for each new token; its
// error ends the answer, and the token that it refused is not of the result. The sequence then holds the prompt and all generated tokens
// but the last, or all of them after a refusal.
func Run(ctx context.Context, e Engine, seq *engine.Sequence, decoder *tokenizer.Tokenizer, q Request, emit func(Piece) error) (*Result, error) {
	r := &Result{FinishReason: FinishError, PromptTokens: len(q.Prompt), Given: len(q.Generated)}
	if err := q.Validate(e.Context()); err != nil {
		return r, err
	}
	a := newAnswer(&q, e.Context(), decoder.NewStream(true))
	err := a.resume(q.Generated)
	r.Tokens, r.Text = a.tokens, a.text.String()
	if err == nil && a.finish == "" {
		err = grow(ctx, e, seq, &q, a, r, emit)
	}
	if err == nil {
		r.FinishReason = a.finish
	}
	return r, err
}

// grow computes an answer from what is known of it to its end.
func grow(ctx context.Context, e Engine, seq *engine.Sequence, q *Request, a *answer, r *Result, emit func(Piece) error) error {
	known := slices.Concat(q.Prompt, q.Generated)
	if seq.Length() >= len(known) {
		if err := seq.Truncate(len(known) - 1); err != nil { // the last position must give logits
			return err
		}
	}
	start := time.Now()
	last, err := prefill(ctx, e, seq, q, known, r)
	if err != nil {
		return err
	}
	firstToken := time.Time{}
	for {
		token := q.Sampling.Sample(last, a.position())
		if firstToken.IsZero() {
			firstToken = time.Now()
			r.Prefill = firstToken.Sub(start)
		}
		piece := a.take(token)
		r.Decode = time.Since(firstToken)
		if err := emit(piece); err != nil {
			return err
		}
		r.Tokens, r.Text = a.tokens, a.text.String()
		if a.finish != "" {
			return nil
		}
		if last, err = step(ctx, e, q, engine.Chunk{Sequence: seq, Tokens: []int32{token}, Phase: budget.Decode, Into: last}); err != nil {
			return err
		}
		if q.KeepLogits {
			r.Logits = append(r.Logits, last...)
		}
	}
}

// prefill computes the positions that seq lacks and gives the logits of the last.
func prefill(ctx context.Context, e Engine, seq *engine.Sequence, q *Request, known []int32, r *Result) ([]float32, error) {
	size := q.PrefillChunk
	if size == 0 {
		size = DefaultPrefillChunk
	}
	var last []float32
	for rest := known[seq.Length():]; len(rest) > 0; {
		n := min(size, len(rest))
		wanted := engine.NoLogits
		switch {
		case q.KeepLogits:
			wanted = engine.AllLogits
		case n == len(rest):
			wanted = engine.LastLogits
		}
		logits, err := step(ctx, e, q, engine.Chunk{Sequence: seq, Tokens: rest[:n], Phase: budget.Prefill, Logits: wanted})
		if err != nil {
			return nil, err
		}
		if q.KeepLogits {
			r.Logits = append(r.Logits, logits...)
			logits = logits[len(logits)-len(logits)/n:]
		}
		last, rest = logits, rest[n:]
	}
	return last, nil
}

// step computes one chunk of a request.
func step(ctx context.Context, e Engine, q *Request, c engine.Chunk) ([]float32, error) {
	c.Budget = q.Budget
	out, err := e.Step(ctx, []engine.Chunk{c})
	if err != nil {
		return nil, err
	}
	return out[0].Logits, out[0].Err
}
