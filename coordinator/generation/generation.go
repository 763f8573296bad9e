// Package generation owns one answer: prefill in chunks, sampling token by token, stop tokens and stop strings, streaming
// text, timings. It knows the model only as an Engine and text only as a token decoder.
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
	MaxTokens    int
	Sampling     sampling.Params
	Stop         []string
	EndTokens    []int // ids that end the answer; none with --ignore-eos
	PrefillChunk int
	KeepLogits   bool
}

// Piece is streamed while an answer grows: one new token and the text that became certain with it.
type Piece struct {
	Token int32
	Text  string
}

// Result is a finished answer. It is filled as far as it got when Run returns an error.
type Result struct {
	Tokens       []int32 // generated ids, an end token included
	Text         string  // without end token and stop string
	FinishReason string
	PromptTokens int
	Prefill      time.Duration // until the first token was sampled
	Decode       time.Duration // from there to the last
	Logits       []float32     // [prompt+generated-1, vocabulary] with KeepLogits
}

// TokensPerSecond is the decode speed: tokens after the first over the time they took; 0 if there is only one.
func (r *Result) TokensPerSecond() float64 {
	if len(r.Tokens) < 2 || r.Decode <= 0 {
		return 0
	}
	return float64(len(r.Tokens)-1) / r.Decode.Seconds()
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

// Run computes an answer on seq, which may hold a prefix of the prompt. emit is called for each token; its error ends the
// answer. The sequence then holds the prompt and all generated tokens but the last.
func Run(ctx context.Context, e Engine, seq *engine.Sequence, decoder *tokenizer.Tokenizer, q Request, emit func(Piece) error) (*Result, error) {
	r := &Result{FinishReason: FinishError, PromptTokens: len(q.Prompt)}
	if err := q.Validate(e.Context()); err != nil {
		return r, err
	}
	if seq.Length() >= len(q.Prompt) {
		if err := seq.Truncate(len(q.Prompt) - 1); err != nil { // the last prompt position must give logits
			return r, err
		}
	}
	start := time.Now()
	last, err := prefill(ctx, e, seq, &q, r)
	if err != nil {
		return r, err
	}
	text := newStopText(decoder.NewStream(true), q.Stop)
	firstToken := time.Time{}
	for {
		token := q.Sampling.Sample(last, len(q.Prompt)+len(r.Tokens))
		if firstToken.IsZero() {
			firstToken = time.Now()
			r.Prefill = firstToken.Sub(start)
		}
		r.Tokens = append(r.Tokens, token)
		r.Decode = time.Since(firstToken)

		end := slices.Contains(q.EndTokens, int(token))
		piece := Piece{Token: token}
		if !end {
			piece.Text = text.next(token)
		}
		finish := ""
		switch {
		case end, text.stopped:
			finish = FinishStop
		case len(r.Tokens) >= q.MaxTokens, len(q.Prompt)+len(r.Tokens) > e.Context():
			finish = FinishLength
		}
		if finish != "" {
			piece.Text += text.flush()
		}
		r.Text += piece.Text
		if err := emit(piece); err != nil {
			return r, err
		}
		if finish != "" {
			r.FinishReason = finish
			return r, nil
		}
		if last, err = step(ctx, e, seq, []int32{token}, budget.Decode, engine.LastLogits, last); err != nil {
			return r, err
		}
		if q.KeepLogits {
			r.Logits = append(r.Logits, last...)
		}
	}
}

// prefill computes the prompt positions that seq lacks and gives the logits of the last.
func prefill(ctx context.Context, e Engine, seq *engine.Sequence, q *Request, r *Result) ([]float32, error) {
	size := q.PrefillChunk
	if size == 0 {
		size = DefaultPrefillChunk
	}
	var last []float32
	for rest := q.Prompt[seq.Length():]; len(rest) > 0; {
		n := min(size, len(rest))
		wanted := engine.NoLogits
		switch {
		case q.KeepLogits:
			wanted = engine.AllLogits
		case n == len(rest):
			wanted = engine.LastLogits
		}
		logits, err := step(ctx, e, seq, rest[:n], budget.Prefill, wanted, nil)
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

// step computes one chunk; the memory of into may be used for its logits.
func step(ctx context.Context, e Engine, seq *engine.Sequence, tokens []int32, phase budget.Phase, wanted engine.LogitsWanted, into []float32) ([]float32, error) {
	out, err := e.Step(ctx, []engine.Chunk{{Sequence: seq, Tokens: tokens, Phase: phase, Logits: wanted, Into: into}})
	if err != nil {
		return nil, err
	}
	return out[0].Logits, out[0].Err
}
