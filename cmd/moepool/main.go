// Command moepool serves mixture-of-experts models from the memory of CPU hosts. This package owns the subcommands, their
// flags and the wiring of coordinator and workers; it must not know how any of them works.
package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"strings"
	"syscall"
)

// Exit codes beside 0.
const (
	exitFailure     = 1
	exitUsage       = 2
	exitInterrupted = 130
	exitTerminated  = 143
)

func main() { os.Exit(run(os.Args[1:])) }

// run executes one command line and gives its exit code.
func run(args []string) int {
	ctx, cancel := context.WithCancelCause(context.Background())
	defer cancel(nil)
	signals := make(chan os.Signal, 2)
	signal.Notify(signals, os.Interrupt, syscall.SIGTERM)
	go func() {
		for s := range signals {
			if departure.take() || s == os.Interrupt && interrupt.take() {
				continue
			}
			cancel(signalError{s})
		}
	}()
	defer func() {
		signal.Stop(signals) // nothing is sent on a closed channel
		close(signals)
	}()

	root := newRootCommand()
	root.SetArgs(args)
	err := root.ExecuteContext(ctx)
	if err != nil && strings.HasPrefix(err.Error(), "unknown command") { // cobra has no type for it
		err = usageError{err}
	}
	var bySignal signalError
	if errors.As(context.Cause(ctx), &bySignal) && err != nil {
		if bySignal.signal == syscall.SIGTERM {
			return exitTerminated
		}
		return exitInterrupted
	}
	var usage usageError
	var quiet silentError
	switch {
	case err == nil:
		return 0
	case errors.As(err, &quiet):
		return exitFailure
	case errors.As(err, &usage):
		fmt.Fprintf(os.Stderr, "moepool: %v\n", err)
		return exitUsage
	}
	fmt.Fprintf(os.Stderr, "moepool: %v\n", err)
	return exitFailure
}

// signalError is the cause of a context that a signal ended.
type signalError struct{ signal os.Signal }

func (e signalError) Error() string { return "stopped by " + e.signal.String() }

// usageError is an error in how the command was called.
type usageError struct{ error }

func (e usageError) Unwrap() error { return e.error }

// silentError is a failure that was already reported.
type silentError struct{ error }

func (e silentError) Unwrap() error { return e.error }
