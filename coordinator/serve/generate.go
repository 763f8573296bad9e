package serve

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/moepool/moepool/coordinator"
	"github.com/moepool/moepool/coordinator/budget"
	"github.com/moepool/moepool/coordinator/generation"
	"github.com/moepool/moepool/coordinator/sampling"
	"github.com/moepool/moepool/coordinator/template"
	"github.com/moepool/moepool/transport"
)

// generate answers one request.
func (s *Server) generate(ctx context.Context, q *transport.GenerateRequest, emit func(*transport.GenerateEvent) error) {
	c, o := s.coordinator, &s.o
	r, err := request(q, o.PrefillChunk, c.Budget())
	var result *generation.Result
	if err == nil {
		result, err = c.Generate(ctx, r, nil, func(p generation.Piece) error {
			o.Metrics.token()
			return emit(&transport.GenerateEvent{Text: p.Text, Tokens: []int32{p.Token}})
		})
	}
	o.Metrics.answered(result, err)
	done := &transport.GenerateEvent{Done: true, FinishReason: generation.FinishError}
	if result != nil {
		done.FinishReason, done.PromptTokens, done.CompletionTokens = result.FinishReason, result.PromptTokens, len(result.Tokens)
		done.PrefillSeconds, done.DecodeSeconds = result.Prefill.Seconds(), result.Decode.Seconds()
		used, policy := result.Used, c.Budget()
		if r.Budget != nil {
			policy = *r.Budget
		}
		done.Experts = Usage(c, policy, &used)
	}
	if err != nil {
		done.FinishReason, done.Error, done.Retry = generation.FinishError, err.Error(), elsewhere(err)
		var late *transport.DeadlineError
		if errors.As(err, &late) && result != nil {
			done.Error = fmt.Sprintf("%v after %d tokens", err, len(result.Tokens))
		}
		o.Log("a request failed: %s", done.Error)
		if !errors.Is(err, transport.ErrClientCanceled) {
			o.Metrics.failures.add(time.Now(), done.Error)
		}
	}
	_ = emit(done) // the client is gone
}

// elsewhere says whether an answer that ended with an error can be continued by another coordinator: this one no longer leads, or its workers
// follow another one.
func elsewhere(err error) bool {
	var remote *transport.RemoteError
	return errors.Is(err, coordinator.ErrNotLeading) || errors.Is(err, transport.ErrClosed) || errors.Is(err, transport.ErrStopping) ||
		errors.As(err, &remote) && remote.Code == transport.CodeStaleTerm
}

// request is what the coordinator is asked for; own is its budget, whose switches a request's keeps.
func request(q *transport.GenerateRequest, prefillChunk int, own budget.Policy) (coordinator.Request, error) {
	r := coordinator.Request{
		Prompt:    coordinator.Prompt{Raw: q.Prompt, Tokens: q.PromptTokens},
		Generated: q.Generated, MaxTokens: q.MaxTokens, Stop: q.Stop, IgnoreEOS: q.IgnoreEOS, PrefillChunk: prefillChunk,
		Sampling: sampling.Params{Temperature: q.Temperature, TopK: q.TopK, TopP: q.TopP, MinP: q.MinP, Seed: q.Seed},
	}
	for _, m := range q.Messages {
		r.Prompt.Messages = append(r.Prompt.Messages, template.Message{Role: m.Role, Content: m.Content})
	}
	if q.ExpertBudget != "" {
		p, err := budget.Parse(q.ExpertBudget)
		if err != nil {
			return r, err
		}
		p.Prefill, p.Rescue = own.Prefill, own.Rescue
		r.Budget = &p
	}
	return r, nil
}
