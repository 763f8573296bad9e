package main

import (
	"errors"
	"fmt"
	"os"
	"strconv"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

const environmentPrefix = "MOEPOOL_"

func newRootCommand() *cobra.Command {
	root := &cobra.Command{
		Use:   "moepool",
		Short: "Serve mixture-of-experts models from the memory of CPU hosts",
		Long: `moepool runs mixture-of-experts language models on CPU memory. A coordinator does tokenizing, attention, routing and
sampling; workers, one process per NUMA node, hold the experts and compute them; both talk over NATS.

  moepool run "And it came to pass"      the embedded demo model, all on this host
  moepool run --model DIR --format q8    a Hugging Face folder

Each flag can also be given as an environment variable: --arena-dir is MOEPOOL_ARENA_DIR.`,
		SilenceUsage:      true,
		SilenceErrors:     true,
		PersistentPreRunE: func(cmd *cobra.Command, _ []string) error { return flagsFromEnvironment(cmd.Flags()) },
	}
	root.SetFlagErrorFunc(func(cmd *cobra.Command, err error) error {
		return usageError{fmt.Errorf("%w (see %s --help)", flagProblem(err), cmd.CommandPath())}
	})
	root.AddCommand(
		newRunCommand(), newCoordinatorCommand(), newWorkerCommand(), newPackCommand(),
		newStatusCommand(), newDrainCommand(), newPlacementCommand(),
		newEvalCommand(), newBenchCommand(), newPlanCommand(), newSynthCommand(), newDoctorCommand(), newVersionCommand(),
	)
	return root
}

// flagProblem says what is wrong with a flag's value without the names of Go's functions.
func flagProblem(err error) error {
	var value *pflag.InvalidValueError
	var number *strconv.NumError
	if !errors.As(err, &value) || !errors.As(err, &number) {
		return err
	}
	why := "not a number"
	switch {
	case number.Func == "ParseBool":
		why = "neither true nor false"
	case errors.Is(number, strconv.ErrRange):
		why = "out of range"
	}
	return fmt.Errorf("invalid argument %q for %q flag: %s", value.GetValue(), "--"+value.GetFlag().Name, why)
}

// variable is the environment variable of a flag.
func variable(flag string) string {
	return environmentPrefix + strings.ToUpper(strings.ReplaceAll(flag, "-", "_"))
}

// given says whether a flag was set, on the command line or by its variable.
func given(flags *pflag.FlagSet, name string) bool {
	_, set := os.LookupEnv(variable(name))
	return set || flags.Changed(name)
}

// flagsFromEnvironment sets each flag that the command line left alone from its MOEPOOL_ variable.
func flagsFromEnvironment(flags *pflag.FlagSet) error {
	var problem error
	flags.VisitAll(func(f *pflag.Flag) {
		name := variable(f.Name)
		value, set := os.LookupEnv(name)
		if f.Changed || !set || f.Name == "help" || problem != nil {
			return
		}
		if err := flags.Set(f.Name, value); err != nil {
			problem = usageError{fmt.Errorf("environment variable %s=%q: %w", name, value, flagProblem(err))}
		}
		f.Changed = false // rules about which flags go together are for the command line
	})
	return problem
}

// noArguments refuses positional arguments with a usage error.
func noArguments(cmd *cobra.Command, args []string) error {
	if len(args) > 0 {
		return usageError{fmt.Errorf("%s takes no argument, found %q (see %s --help)", cmd.CommandPath(), args[0], cmd.CommandPath())}
	}
	return nil
}
