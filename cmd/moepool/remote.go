package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"time"

	"github.com/moepool/moepool/coordinator"
	"github.com/moepool/moepool/coordinator/generation"
	"github.com/moepool/moepool/coordinator/template"
	"github.com/moepool/moepool/transport"
)

// connectLimit is how long the client waits for NATS.
const connectLimit = 5 * time.Second

// runRemote is `run --nats`: the client of a coordinator's generate service.
func (f *runFlags) runRemote(ctx context.Context, out io.Writer, q coordinator.Request, chat bool, log *logger) error {
	if f.dumpLogits != "" {
		return usageError{errors.New("--dump-logits needs the model on this host, it does not go with --nats")}
	}
	options, err := f.nats.options("moepool run", log.Printf)
	if err != nil {
		return err
	}
	connecting, cancel := context.WithTimeoutCause(ctx, connectLimit, fmt.Errorf("no answer within %v", connectLimit))
	defer cancel()
	conn, err := transport.Connect(connecting, options)
	if err != nil {
		return err
	}
	defer conn.Close()
	remote := &remoteChat{conn: conn, cluster: f.nats.cluster, request: q}
	if chat {
		return chatLoop(ctx, remote, out, f.quiet)
	}
	report, failure := remote.generate(ctx, q.Prompt, func(text string) error {
		if f.asJSON {
			return nil
		}
		_, err := io.WriteString(out, text)
		return err
	})
	if failure != nil && ctx.Err() != nil {
		return context.Cause(ctx)
	}
	return f.finish(out, report, failure)
}

// remoteChat answers through the generate service.
type remoteChat struct {
	conn    *transport.Conn
	cluster string
	request coordinator.Request
}

func (c *remoteChat) answer(ctx context.Context, messages []template.Message, text func(string) error) (*runReport, error) {
	return c.generate(ctx, coordinator.Prompt{Messages: messages}, text)
}

func (c *remoteChat) generate(ctx context.Context, prompt coordinator.Prompt, text func(string) error) (*runReport, error) {
	q := c.request
	request := &transport.GenerateRequest{
		Prompt: prompt.Raw, PromptTokens: prompt.Tokens, MaxTokens: q.MaxTokens,
		Temperature: q.Sampling.Temperature, TopK: q.Sampling.TopK, TopP: q.Sampling.TopP, MinP: q.Sampling.MinP,
		Seed: q.Sampling.Seed, Stop: q.Stop, IgnoreEOS: q.IgnoreEOS,
	}
	for _, m := range prompt.Messages {
		request.Messages = append(request.Messages, transport.ChatMessage{Role: m.Role, Content: m.Content})
	}
	report := newRunReport(nil, nil, 0)
	err := transport.Generate(ctx, c.conn, c.cluster, request, func(e *transport.GenerateEvent) error {
		report.Text += e.Text
		report.Tokens = append(report.Tokens, e.Tokens...)
		if e.Done {
			report.FinishReason, report.Error = e.FinishReason, e.Error
			report.Usage = usageReport{PromptTokens: e.PromptTokens, CompletionTokens: e.CompletionTokens}
			report.Timings.Prefill, report.Timings.Decode = e.PrefillSeconds, e.DecodeSeconds
			if e.CompletionTokens > 1 && e.DecodeSeconds > 0 {
				report.Timings.TokensPerSecond = float64(e.CompletionTokens-1) / e.DecodeSeconds
			}
		}
		return text(e.Text)
	})
	switch {
	case err != nil:
		report.Error = err.Error()
	case report.FinishReason == generation.FinishError:
		err = errors.New(report.Error)
	}
	return report, err
}
