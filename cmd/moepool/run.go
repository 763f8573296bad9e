package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/moepool/moepool/checkpoint"
	"github.com/moepool/moepool/coordinator"
	"github.com/moepool/moepool/coordinator/generation"
	"github.com/moepool/moepool/coordinator/sampling"
	"github.com/moepool/moepool/coordinator/template"
)

// runFlags are the flags of `run`.
type runFlags struct {
	local        localFlags
	nats         natsFlags
	sampling     samplingFlags
	promptTokens string
	file         string
	raw          bool
	system       string
	dumpLogits   string
	asJSON       bool
	quiet        bool
	timeout      time.Duration
}

func newRunCommand() *cobra.Command {
	f := &runFlags{}
	cmd := &cobra.Command{
		Use:   "run [PROMPT]",
		Short: "Generate text: NATS, a worker per NUMA node and the coordinator, all on this host",
		Long: `Starts a worker process per NUMA node and a coordinator in this process, and prints the model's answer.

PROMPT (or piped standard input) goes through the model's chat template if it has one, unless --raw. Without a prompt on
a terminal it chats. With --nats it is the client of a running "moepool coordinator" and starts nothing.`,
		Args: cobra.ArbitraryArgs,
		RunE: func(cmd *cobra.Command, args []string) error { return f.run(cmd, args) },
	}
	flags := cmd.Flags()
	f.local.register(flags)
	f.nats.register(flags)
	f.sampling.register(flags)
	flags.StringVar(&f.promptTokens, "prompt-tokens", "", "prompt as token ids, for example 1,2,3")
	flags.StringVar(&f.file, "file", "", "file with the prompt, used as it is")
	flags.BoolVar(&f.raw, "raw", false, "no chat template")
	flags.StringVar(&f.system, "system", "", "system message in front of the prompt")
	flags.StringVar(&f.dumpLogits, "dump-logits", "", "safetensors file for the logits of each position (float32 [prompt + generated - 1, vocabulary])")
	flags.BoolVar(&f.asJSON, "json", false, "print one JSON object instead of the text")
	flags.BoolVarP(&f.quiet, "quiet", "q", false, "no progress and no summary on stderr")
	flags.DurationVar(&f.timeout, "timeout", 30*time.Minute,
		"with --nats: most time for the answer, the search for another coordinator included; 0: any")
	cmd.MarkFlagsMutuallyExclusive("prompt-tokens", "file", "raw")
	return cmd
}

func (f *runFlags) run(cmd *cobra.Command, args []string) error {
	ctx := cmd.Context()
	if err := f.sampling.validate(); err != nil {
		return err
	}
	request, chat, err := f.request(args, os.Stdin)
	if err != nil {
		return err
	}
	if f.nats.url != "" {
		return f.runRemote(ctx, cmd, request, chat)
	}
	c, err := startLocal(ctx, &f.local, !f.quiet && !f.asJSON, func(c *coordinator.Coordinator) error {
		if chat {
			return nil
		}
		return f.check(c, request)
	})
	if err != nil {
		return err
	}
	defer c.stop()
	if chat {
		return chatLoop(ctx, &localChat{c.Coordinator, c.NewSession(), request}, cmd.OutOrStdout(), f.quiet)
	}
	result, failure := c.Generate(ctx, request, nil, func(p generation.Piece) error {
		if f.asJSON {
			return nil
		}
		_, err := io.WriteString(cmd.OutOrStdout(), p.Text)
		return err
	})
	if c.failed = failure != nil; c.failed && ctx.Err() != nil {
		return context.Cause(ctx)
	}
	if failure == nil && f.dumpLogits != "" {
		failure = f.writeLogits(result, c.Checkpoint.Config().Vocabulary)
	}
	if failure == nil && f.asJSON {
		c.awaitResidency(ctx)
	}
	report := newRunReport(result, failure, c.loaded)
	policy, _ := f.local.coordinator.policy() // checked by startLocal
	report.describe(c.Coordinator, policy, c.Engine.Totals())
	report.Notes = append(report.Notes, c.notes...)
	if why := f.local.model.refused(); why != "" {
		report.Notes = append(report.Notes, why)
	}
	return f.finish(cmd.OutOrStdout(), report, failure)
}

// check finds what is wrong with a request before anything is loaded.
func (f *runFlags) check(c *coordinator.Coordinator, q coordinator.Request) error {
	if f.dumpLogits != "" {
		if info, err := os.Stat(filepath.Dir(f.dumpLogits)); err != nil || !info.IsDir() {
			return usageError{fmt.Errorf("--dump-logits %s: its folder does not exist", f.dumpLogits)}
		}
	}
	return c.Check(q)
}

// finish prints the report, or the end of the text and a summary.
func (f *runFlags) finish(out io.Writer, report *runReport, failure error) error {
	if f.asJSON {
		if err := printJSON(out, report); err != nil {
			return err
		}
	} else if report.Text != "" || failure == nil {
		fmt.Fprintln(out)
	}
	if failure == nil && !f.quiet && !f.asJSON {
		fmt.Fprintln(os.Stderr, report.summary())
	}
	if failure != nil { // said before the workers are ended: one that hangs takes a while
		fmt.Fprintf(os.Stderr, "moepool: %v\n", failure)
		return silentError{failure}
	}
	return nil
}

// summary is how fast an answer was, and what its budget cut.
func (r *runReport) summary() string {
	speed := fmt.Sprintf("[%d prompt tokens, first token after %.2f s; %d tokens, %.1f tokens/s]",
		r.Usage.PromptTokens, r.Timings.Prefill, r.Usage.CompletionTokens, r.Timings.TokensPerSecond)
	if cut := r.Budget.summary(); cut != "" {
		return speed + "\n" + cut
	}
	return speed
}

// request builds the request from flags, arguments and standard input; chat says that there is no prompt but a terminal.
func (f *runFlags) request(args []string, stdin *os.File) (q coordinator.Request, chat bool, err error) {
	q = coordinator.Request{
		MaxTokens: f.sampling.maxTokens, Stop: f.sampling.stop, IgnoreEOS: f.sampling.ignoreEOS,
		Sampling: sampling.Params{
			Temperature: f.sampling.temperature, TopK: f.sampling.topK, TopP: f.sampling.topP,
			MinP: f.sampling.minP, Seed: f.sampling.seed,
		},
		PrefillChunk: f.local.coordinator.prefillChunk,
		KeepLogits:   f.dumpLogits != "",
	}
	if err := q.Sampling.Validate(); err != nil {
		return q, false, usageError{err}
	}
	given := 0
	for _, is := range []bool{len(args) > 0, f.promptTokens != "", f.file != ""} {
		if is {
			given++
		}
	}
	if given > 1 {
		return q, false, usageError{errors.New("give one prompt: PROMPT, --prompt-tokens or --file")}
	}
	text := strings.Join(args, " ")
	switch {
	case f.promptTokens != "":
		q.Prompt.Tokens, err = parseTokens(f.promptTokens)
		return q, false, err
	case f.file != "":
		data, err := os.ReadFile(f.file)
		if err != nil {
			return q, false, fmt.Errorf("--file: %w", err)
		}
		q.Prompt.Raw = string(data)
		return q, false, nil
	case given == 0 && isTerminal(stdin):
		return q, true, nil
	case given == 0:
		data, err := io.ReadAll(stdin)
		if err != nil {
			return q, false, fmt.Errorf("standard input: %w", err)
		}
		text = string(data)
	}
	if text == "" {
		return q, false, usageError{errors.New("the prompt is empty")}
	}
	if f.raw {
		q.Prompt.Raw = text
		return q, false, nil
	}
	q.Prompt.Messages = f.messages(text)
	return q, false, nil
}

// messages is a conversation of one turn.
func (f *runFlags) messages(text string) []template.Message {
	var messages []template.Message
	if f.system != "" {
		messages = append(messages, template.Message{Role: "system", Content: f.system})
	}
	return append(messages, template.Message{Role: "user", Content: text})
}

func parseTokens(s string) ([]int32, error) {
	ids := []int32{}
	for _, field := range strings.Split(s, ",") {
		id, err := strconv.ParseInt(strings.TrimSpace(field), 10, 32)
		if err != nil || id < 0 {
			return nil, usageError{fmt.Errorf("--prompt-tokens: %q is not a token id; give ids as in 1,2,3", field)}
		}
		ids = append(ids, int32(id))
	}
	return ids, nil
}

func (f *runFlags) writeLogits(r *generation.Result, vocabulary int) error {
	err := checkpoint.WriteTensors(f.dumpLogits, []checkpoint.Floats{{
		Name: "logits", Shape: []int{len(r.Logits) / vocabulary, vocabulary}, Data: r.Logits,
	}})
	if err != nil {
		return fmt.Errorf("--dump-logits: %w", err)
	}
	return nil
}
