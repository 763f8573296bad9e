package serve

import (
	"context"

	"github.com/moepool/moepool/coordinator"
	"github.com/moepool/moepool/coordinator/generation"
	"github.com/moepool/moepool/coordinator/sampling"
	"github.com/moepool/moepool/coordinator/template"
	"github.com/moepool/moepool/transport"
)

// Generate answers the cluster's generate requests until stop is called; failed ones are logged.
func Generate(c *coordinator.Coordinator, cluster string, prefillChunk int, m *Metrics, log func(format string, args ...any)) (stop func(), err error) {
	return transport.ServeGenerate(c.Conn, cluster, func(ctx context.Context, q *transport.GenerateRequest, emit func(*transport.GenerateEvent) error) {
		result, err := c.Generate(ctx, request(q, prefillChunk), nil, func(p generation.Piece) error {
			return emit(&transport.GenerateEvent{Text: p.Text, Tokens: []int32{p.Token}})
		})
		m.answered(result, err)
		done := &transport.GenerateEvent{Done: true, FinishReason: generation.FinishError}
		if result != nil {
			done.FinishReason, done.PromptTokens, done.CompletionTokens = result.FinishReason, result.PromptTokens, len(result.Tokens)
			done.PrefillSeconds, done.DecodeSeconds = result.Prefill.Seconds(), result.Decode.Seconds()
		}
		if err != nil {
			done.FinishReason, done.Error = generation.FinishError, err.Error()
			log("a request failed: %v", err)
		}
		_ = emit(done) // the client is gone
	})
}

func request(q *transport.GenerateRequest, prefillChunk int) coordinator.Request {
	r := coordinator.Request{
		Prompt:    coordinator.Prompt{Raw: q.Prompt, Tokens: q.PromptTokens},
		MaxTokens: q.MaxTokens, Stop: q.Stop, IgnoreEOS: q.IgnoreEOS, PrefillChunk: prefillChunk,
		Sampling: sampling.Params{Temperature: q.Temperature, TopK: q.TopK, TopP: q.TopP, MinP: q.MinP, Seed: q.Seed},
	}
	for _, m := range q.Messages {
		r.Prompt.Messages = append(r.Prompt.Messages, template.Message{Role: m.Role, Content: m.Content})
	}
	return r
}
