package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"

	"github.com/chzyer/readline"

	"github.com/moepool/moepool/coordinator"
	"github.com/moepool/moepool/coordinator/generation"
	"github.com/moepool/moepool/coordinator/template"
)

// chatModel answers a conversation.
type chatModel interface {
	answer(ctx context.Context, messages []template.Message, text func(string) error) (*runReport, error)
}

// localChat answers from a coordinator in this process, keeping the KV cache between turns.
type localChat struct {
	coordinator *coordinator.Coordinator
	session     *coordinator.Session
	request     coordinator.Request
}

func (c *localChat) answer(ctx context.Context, messages []template.Message, text func(string) error) (*runReport, error) {
	q := c.request
	q.Prompt.Messages = messages
	result, err := c.coordinator.Generate(ctx, q, c.session, func(p generation.Piece) error { return text(p.Text) })
	return newRunReport(result, err, 0), err
}

const chatHelp = `/reset  start a new conversation    /exit or Ctrl-D  leave    Ctrl-C  stop the answer`

// chatLoop reads turns from the terminal until the user leaves.
func chatLoop(ctx context.Context, model chatModel, out io.Writer, quiet bool) error {
	line, err := readline.NewEx(&readline.Config{Prompt: ">>> ", Stdout: os.Stderr, InterruptPrompt: "^C", EOFPrompt: ""})
	if err != nil {
		return err
	}
	defer line.Close()
	fmt.Fprintln(os.Stderr, chatHelp)
	var messages []template.Message
	for {
		text, err := line.Readline()
		switch {
		case errors.Is(err, io.EOF), errors.Is(err, readline.ErrInterrupt) && text == "":
			return nil
		case errors.Is(err, readline.ErrInterrupt):
			continue
		case err != nil:
			return err
		}
		switch text = strings.TrimSpace(text); text {
		case "":
			continue
		case "/exit", "/quit":
			return nil
		case "/reset":
			messages = nil
			continue
		case "/help", "/?":
			fmt.Fprintln(os.Stderr, chatHelp)
			continue
		}
		asked := append(messages, template.Message{Role: "user", Content: text})
		report, err := answerInterruptibly(ctx, model, asked, out)
		fmt.Fprintln(out)
		switch {
		case ctx.Err() != nil:
			return context.Cause(ctx)
		case err != nil && !errors.Is(err, context.Canceled):
			fmt.Fprintf(os.Stderr, "error: %v\n", err)
			continue // the turn is forgotten
		}
		messages = append(asked, template.Message{Role: "assistant", Content: report.Text})
		if err == nil && !quiet {
			fmt.Fprintln(os.Stderr, report.summary())
		}
	}
}

// answerInterruptibly lets Ctrl-C end the answer instead of the program.
func answerInterruptibly(ctx context.Context, model chatModel, messages []template.Message, out io.Writer) (*runReport, error) {
	turn, done := interrupt.during(ctx)
	defer done()
	return model.answer(turn, messages, func(text string) error {
		_, err := io.WriteString(out, text)
		return err
	})
}
