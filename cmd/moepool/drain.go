package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"time"

	"github.com/spf13/cobra"

	"github.com/moepool/moepool/coordinator/membership"
	"github.com/moepool/moepool/coordinator/serve"
	"github.com/moepool/moepool/internal/bytesize"
	"github.com/moepool/moepool/transport"
)

// backgroundFlags are those of commands that go on in the coordinator.
type backgroundFlags struct {
	nats    natsFlags
	asJSON  bool
	noWait  bool
	timeout time.Duration
}

func (f *backgroundFlags) register(cmd *cobra.Command) {
	flags := cmd.Flags()
	f.nats.register(flags)
	flags.BoolVar(&f.asJSON, "json", false, "print one JSON object at the end")
	flags.BoolVar(&f.noWait, "no-wait", false, "return as soon as the coordinator has taken the command")
	flags.DurationVar(&f.timeout, "timeout", 10*time.Minute, "most time to wait for the end; the coordinator goes on")
}

// backgroundReport is what such a command prints with --json.
type backgroundReport struct {
	Done  bool   `json:"done"`            // false with --no-wait
	Epoch uint64 `json:"placement_epoch"` // that is active at the end
}

func newDrainCommand() *cobra.Command {
	f := &backgroundFlags{}
	cmd := &cobra.Command{
		Use:   "drain WORKER",
		Short: "Move a worker's experts to the others, then let it leave",
		Long: `Asks the coordinator to place a worker's experts on the other ones and then to let it end. Requests go on meanwhile, in the same bits. It
waits until the worker has left.

  moepool drain --nats nats://127.0.0.1:4222 --token-file token w2`,
		Args: func(cmd *cobra.Command, args []string) error {
			if len(args) != 1 {
				return usageError{fmt.Errorf("%s takes the id of one worker (moepool status lists them), found %d arguments", cmd.CommandPath(), len(args))}
			}
			return nil
		},
		RunE: func(cmd *cobra.Command, args []string) error {
			worker := args[0]
			if !transport.ValidName(worker) {
				return usageError{fmt.Errorf("%q is no worker id: valid are 1 to 64 letters, digits, _ and -", worker)}
			}
			return f.run(cmd, "moepool drain", transport.AdminDrain, serve.DrainRequest{Worker: worker},
				func(_, s *serve.Status) (bool, string, error) { return drained(s, worker) })
		},
	}
	f.register(cmd)
	return cmd
}

// drained says whether a worker has left, and else how far it is.
func drained(s *serve.Status, worker string) (bool, string, error) {
	for _, w := range s.Members.Workers {
		if w.ID == worker && w.State != membership.StateLost {
			what := fmt.Sprintf("worker %s: %s, %d expert parts", worker, w.State, w.Parts)
			if p := s.Members.Pending; p != nil {
				what += fmt.Sprintf("; placement %d is %s, %s to load", p.Epoch, p.Phase, bytesize.Text(p.Moved))
			}
			return false, what, nil
		}
	}
	return true, fmt.Sprintf("worker %s has left", worker), nil
}

// run sends a command and follows it until done says that it is over, or that it can't be.
func (f *backgroundFlags) run(cmd *cobra.Command, name, verb string, request any, done func(before, now *serve.Status) (bool, string, error)) error {
	if f.timeout <= 0 {
		return usageError{fmt.Errorf("--timeout is %v, it must be above 0", f.timeout)}
	}
	ctx := cmd.Context()
	client, err := f.nats.admin(ctx, name)
	if err != nil {
		return err
	}
	defer client.conn.Close()
	before, err := client.status(ctx)
	if err != nil {
		return err
	}
	var accepted serve.Accepted
	if err := client.ask(ctx, verb, request, &accepted); err != nil {
		return err
	}
	report := backgroundReport{Epoch: accepted.Epoch}
	if !f.noWait {
		limit, cancel := context.WithTimeoutCause(ctx, f.timeout,
			fmt.Errorf("not done within %v (--timeout); the coordinator goes on, moepool status shows how far it is", f.timeout))
		defer cancel()
		if report.Epoch, err = client.follow(limit, before, done); err != nil {
			return err
		}
		report.Done = true
	}
	if f.asJSON {
		return printJSON(cmd.OutOrStdout(), report)
	}
	return nil
}

// errOver ends following.
var errOver = errors.New("over")

// follow asks for the status until done, and says each new state on stderr. The coordinator may be another one meanwhile.
func (c *adminClient) follow(ctx context.Context, before *serve.Status, done func(before, now *serve.Status) (bool, string, error)) (epoch uint64, err error) {
	said := ""
	say := func(text string) {
		if text != said && text != "" {
			fmt.Fprintln(os.Stderr, text)
			said = text
		}
	}
	err = each(ctx, watchInterval, func() error {
		s, err := c.status(ctx)
		switch {
		case ctx.Err() != nil:
			return context.Cause(ctx)
		case err != nil:
			say(err.Error())
			return nil
		}
		over, text, err := done(before, s)
		say(text)
		if err == nil && over {
			if s.Members.Active != nil {
				epoch = s.Members.Active.Epoch
			}
			return errOver
		}
		return err
	})
	if errors.Is(err, errOver) {
		err = nil
	}
	return epoch, err
}
