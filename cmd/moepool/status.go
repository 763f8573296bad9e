package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"time"

	"github.com/spf13/cobra"
	"golang.org/x/term"

	"github.com/moepool/moepool/coordinator/serve"
	"github.com/moepool/moepool/transport"
)

const (
	// adminWait is how long a command waits for its answer, a view that is refreshed anyway watchWait.
	adminWait = 10 * time.Second
	watchWait = 2 * time.Second
	// watchInterval is how often a view is refreshed, and how often commands look how far they are.
	watchInterval = time.Second
)

// adminClient asks a cluster's coordinator.
type adminClient struct {
	conn *transport.Conn
	nats *natsFlags
	wait time.Duration
}

func (f *natsFlags) admin(ctx context.Context, name string) (*adminClient, error) {
	conn, err := f.connect(ctx, name, newLogger(true))
	if err != nil {
		return nil, err
	}
	return &adminClient{conn, f, adminWait}, nil
}

// ask sends one command.
func (c *adminClient) ask(ctx context.Context, verb string, request, answer any) error {
	ctx, cancel := context.WithTimeoutCause(ctx, c.wait,
		fmt.Errorf("the coordinator of cluster %s at %s has not answered within %v", c.nats.cluster, c.nats.url, c.wait))
	defer cancel()
	return c.nats.explain(transport.Admin(ctx, c.conn, c.nats.cluster, verb, request, answer))
}

func (c *adminClient) status(ctx context.Context) (*serve.Status, error) {
	s := &serve.Status{}
	if err := c.ask(ctx, transport.AdminStatus, nil, s); err != nil {
		return nil, err
	}
	return s, nil
}

// statusFlags are the flags of `status`.
type statusFlags struct {
	nats   natsFlags
	asJSON bool
	watch  bool
}

func newStatusCommand() *cobra.Command {
	f := &statusFlags{}
	cmd := &cobra.Command{
		Use:   "status",
		Short: "Show a cluster: hosts, workers, placement, residency, tokens/s, recent failures",
		Long: `Asks the coordinator of a cluster over NATS what it knows of its workers, its placement and its requests.

  moepool status --nats nats://127.0.0.1:4222 --token-file token
  moepool status --nats ... --watch           a full-screen view; Ctrl-C leaves
  moepool status --nats ... --json --watch    one JSON object a line, each second`,
		Args: noArguments,
		RunE: func(cmd *cobra.Command, _ []string) error { return f.run(cmd) },
	}
	flags := cmd.Flags()
	f.nats.register(flags)
	flags.BoolVar(&f.asJSON, "json", false, "print one JSON object")
	flags.BoolVar(&f.watch, "watch", false, "refresh each second, over the whole terminal")
	return cmd
}

func (f *statusFlags) run(cmd *cobra.Command) error {
	if f.watch && !f.asJSON && !isTerminal(os.Stdout) {
		return usageError{errors.New("--watch needs a terminal; for other programs: --watch --json")}
	}
	ctx, out := cmd.Context(), cmd.OutOrStdout()
	client, err := f.nats.admin(ctx, "moepool status")
	if err != nil {
		return err
	}
	defer client.conn.Close()
	switch {
	case f.watch && f.asJSON:
		return client.stream(ctx, out)
	case f.watch:
		return client.watch(ctx, os.Stdout)
	}
	s, err := client.status(ctx)
	if err != nil {
		return err
	}
	if f.asJSON {
		return printJSON(out, s)
	}
	for _, line := range (&statusView{status: s, now: s.Members.Time}).lines() {
		fmt.Fprintln(out, line)
	}
	return nil
}

// stream prints a JSON object a line each second, until ctx ends or the coordinator can't be asked.
func (c *adminClient) stream(ctx context.Context, out io.Writer) error {
	return each(ctx, watchInterval, func() error {
		s, err := c.status(ctx)
		if err != nil {
			return err
		}
		return json.NewEncoder(out).Encode(s)
	})
}

// each calls f now and at each interval until it fails or ctx ends.
func each(ctx context.Context, interval time.Duration, f func() error) error {
	tick := time.NewTicker(interval)
	defer tick.Stop()
	for {
		if err := f(); err != nil {
			return err
		}
		select {
		case <-ctx.Done():
			return context.Cause(ctx)
		case <-tick.C:
		}
	}
}

// Escape sequences of terminals.
const (
	enterScreen = "\x1b[?1049h\x1b[?25l" // another screen, no cursor
	leaveScreen = "\x1b[?25h\x1b[?1049l"
	home        = "\x1b[H"
	clearLine   = "\x1b[K"
	clearBelow  = "\x1b[J"
)

// watch shows the cluster over the whole terminal until ctx ends; a coordinator that doesn't answer is shown, too: it may come back.
func (c *adminClient) watch(ctx context.Context, terminal *os.File) error {
	fmt.Fprint(terminal, enterScreen)
	defer fmt.Fprint(terminal, leaveScreen)
	view := &statusView{styled: true}
	c.wait = watchWait
	return each(ctx, watchInterval, func() error {
		s, err := c.status(ctx)
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
		if view.problem = err; err == nil {
			view.status = s
			view.remember(s.Requests.TokensPerSecond)
		}
		view.now = time.Now()
		width, height, err := term.GetSize(int(terminal.Fd()))
		if err != nil {
			width, height = 80, 24
		}
		_, err = io.WriteString(terminal, view.screen(width, height))
		return err
	})
}
