package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/moepool/moepool/coordinator"
	"github.com/moepool/moepool/coordinator/budget"
	"github.com/moepool/moepool/coordinator/template"
	"github.com/moepool/moepool/transport"
)

const (
	// connectLimit is how long a client waits for NATS.
	connectLimit = 15 * time.Second
	// coordinatorLimit is how long a client waits for a coordinator when none has answered yet: a group may be choosing its leader,
	// more than once where its hosts have far more to do than CPUs.
	coordinatorLimit = 15 * time.Second
)

// connect reaches NATS as a client.
func (f *natsFlags) connect(ctx context.Context, name string, log *logger) (*transport.Conn, error) {
	if f.url == "" {
		return nil, usageError{errors.New("--nats is needed: the URL of the NATS server that the coordinator uses, for example nats://127.0.0.1:4222")}
	}
	options, err := f.options(name, log.Printf)
	if err != nil {
		return nil, err
	}
	connecting, cancel := context.WithTimeoutCause(ctx, connectLimit, fmt.Errorf("no answer within %v", connectLimit))
	defer cancel()
	return transport.Connect(connecting, options)
}

// explain says what to do about a coordinator that doesn't answer.
func (f *natsFlags) explain(err error) error {
	if errors.Is(err, transport.ErrNoCoordinator) {
		return fmt.Errorf("no coordinator answers on cluster %s at %s: none runs there (moepool coordinator --nats ...), or it still waits for its workers (moepool status), "+
			"or of several coordinators too few are left to agree on a leader, or the cluster has another name (--cluster); `nats micro info moepool` lists those that serve", f.cluster, f.url)
	}
	return err
}

// coordinatorFlagsGiven lists what was given on the command line, but is not the client's to say: what a model on this host is run with, except the
// budget, which a request may have of its own.
func coordinatorFlagsGiven(cmd *cobra.Command) (names []string) {
	local := pflag.NewFlagSet("", pflag.ContinueOnError)
	(&localFlags{}).register(local)
	local.VisitAll(func(flag *pflag.Flag) {
		if flag.Name != "expert-budget" && flag.Name != "verbose" && cmd.Flags().Changed(flag.Name) {
			names = append(names, "--"+flag.Name)
		}
	})
	return names
}

// runRemote is `run --nats`: the client of a coordinator's generate service.
func (f *runFlags) runRemote(ctx context.Context, cmd *cobra.Command, q coordinator.Request, chat bool) error {
	switch {
	case f.dumpLogits != "":
		return usageError{errors.New("--dump-logits needs the model on this host, it does not go with --nats")}
	case f.timeout < 0:
		return usageError{fmt.Errorf("--timeout is %v, it must be at least 0 (0: any time)", f.timeout)}
	}
	if names := coordinatorFlagsGiven(cmd); len(names) > 0 {
		return usageError{fmt.Errorf("%s: that is decided where the coordinator and its workers are started, it does not go with --nats", strings.Join(names, ", "))}
	}
	log := newLogger(true)
	remote := &remoteChat{nats: &f.nats, request: q, timeout: f.timeout, log: log}
	if given(cmd.Flags(), "expert-budget") {
		if _, err := budget.Parse(f.local.coordinator.expertBudget); err != nil {
			return usageError{fmt.Errorf("--expert-budget: %w", err)}
		}
		remote.budget = f.local.coordinator.expertBudget
	}
	var err error
	if remote.conn, err = f.nats.connect(ctx, "moepool run", log); err != nil {
		return err
	}
	defer remote.conn.Close()
	out := cmd.OutOrStdout()
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
	nats    *natsFlags
	request coordinator.Request
	budget  string // --expert-budget; "" is the coordinator's
	timeout time.Duration
	log     *logger
}

func (c *remoteChat) answer(ctx context.Context, messages []template.Message, text func(string) error) (*runReport, error) {
	return c.generate(ctx, coordinator.Prompt{Messages: messages}, text)
}

func (c *remoteChat) generate(ctx context.Context, prompt coordinator.Prompt, text func(string) error) (*runReport, error) {
	q := c.request
	request := &transport.GenerateRequest{
		Prompt: prompt.Raw, PromptTokens: prompt.Tokens, MaxTokens: q.MaxTokens,
		Temperature: q.Sampling.Temperature, TopK: q.Sampling.TopK, TopP: q.Sampling.TopP, MinP: q.Sampling.MinP,
		Seed: q.Sampling.Seed, Stop: q.Stop, IgnoreEOS: q.IgnoreEOS, ExpertBudget: c.budget,
	}
	for _, m := range prompt.Messages {
		request.Messages = append(request.Messages, transport.ChatMessage{Role: m.Role, Content: m.Content})
	}
	report := newRunReport(nil, nil, 0)
	before := 0 // tokens of former coordinators
	said := false
	options := transport.GenerateOptions{Timeout: c.timeout, Wait: coordinatorLimit, Lost: func(why error, tokens int) {
		before = tokens
		if !said {
			said = true
			c.log.Printf("warning: the coordinator is lost (%v): the answer is continued by the next one that serves cluster %s, after %d tokens", why,
				c.nats.cluster, tokens)
		}
	}}
	var err error
	report.Resubmissions, err = transport.Generate(ctx, c.conn, c.nats.cluster, request, options, func(e *transport.GenerateEvent) error {
		report.Text += e.Text
		report.Tokens = append(report.Tokens, e.Tokens...)
		if e.Done {
			report.done(e, e.CompletionTokens-before)
		}
		return text(e.Text)
	})
	for _, note := range report.Notes {
		c.log.Printf("warning: %s", note)
	}
	if err != nil {
		err = c.nats.explain(err)
		report.Error = err.Error()
	}
	return report, err
}

// done takes what the last event says; computed is how many tokens its coordinator computed.
func (r *runReport) done(e *transport.GenerateEvent, computed int) {
	r.FinishReason, r.Error = e.FinishReason, e.Error
	r.Usage = usageReport{PromptTokens: e.PromptTokens, CompletionTokens: e.CompletionTokens}
	r.Timings.Prefill, r.Timings.Decode = e.PrefillSeconds, e.DecodeSeconds
	if computed > 1 && e.DecodeSeconds > 0 {
		r.Timings.TokensPerSecond = float64(computed-1) / e.DecodeSeconds
	}
	if e.Experts != nil {
		r.use(e.Experts)
	}
}
