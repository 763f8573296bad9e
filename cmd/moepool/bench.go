package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"runtime/pprof"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/moepool/moepool/cmd/moepool/internal/bench"
	"github.com/moepool/moepool/numa"
	"github.com/moepool/moepool/numa/hostinfo"
	"github.com/moepool/moepool/worker"
)

// benchOutput is how each bench command shows its rows.
type benchOutput struct {
	output     string
	asJSON     bool
	quiet      bool
	cpuProfile string
}

func (f *benchOutput) register(flags *pflag.FlagSet) {
	flags.StringVar(&f.output, "output", "table", "form of the table: "+strings.Join(bench.Outputs, ", "))
	flags.BoolVar(&f.asJSON, "json", false, "print an array of rows")
	flags.BoolVarP(&f.quiet, "quiet", "q", false, "no progress on stderr")
	flags.StringVar(&f.cpuProfile, "cpuprofile", "", "file for a CPU profile of this process (for go tool pprof)")
	_ = flags.MarkHidden("cpuprofile") // for those who work on moepool: docs/benchmarks.md
}

func (f *benchOutput) validate(cmd *cobra.Command) error {
	if !slices.Contains(bench.Outputs, f.output) {
		return usageError{fmt.Errorf("--output is %q, valid are %s", f.output, strings.Join(bench.Outputs, ", "))}
	}
	if f.asJSON && cmd.Flags().Changed("output") {
		return usageError{errors.New("--json and --output exclude each other")}
	}
	return nil
}

// rows measures and prints: measure reports each row as it is known, of so many.
func (f *benchOutput) rows(cmd *cobra.Command, count int, measure func(ctx context.Context, bars *bars, report func(bench.Row)) error) error {
	bars := newBars(newLogger(true), !f.quiet && !f.asJSON)
	defer bars.finish()
	stop, err := f.profile()
	if err != nil {
		return err
	}
	rows := []bench.Row{}
	bars.count("measurements", 0, int64(count))
	err = measure(cmd.Context(), bars, func(r bench.Row) {
		rows = append(rows, r)
		bars.count("measurements", int64(len(rows)), int64(count))
	})
	if err = errors.Join(err, stop()); err != nil {
		return err
	}
	bars.finish()
	if f.asJSON {
		return printJSON(cmd.OutOrStdout(), rows)
	}
	return bench.Write(cmd.OutOrStdout(), f.output, rows)
}

// profile starts --cpuprofile, if asked for.
func (f *benchOutput) profile() (stop func() error, err error) {
	if f.cpuProfile == "" {
		return func() error { return nil }, nil
	}
	file, err := os.Create(f.cpuProfile)
	if err != nil {
		return nil, fmt.Errorf("--cpuprofile: %w", err)
	}
	if err := pprof.StartCPUProfile(file); err != nil {
		file.Close()
		return nil, fmt.Errorf("--cpuprofile: %w", err)
	}
	return func() error {
		pprof.StopCPUProfile()
		return file.Close()
	}, nil
}

// effortFlags say how often a call is measured.
type effortFlags struct {
	calls   int
	seconds float64
}

func (f *effortFlags) register(flags *pflag.FlagSet, seconds float64) {
	flags.IntVar(&f.calls, "calls", 0, "measured calls of each row (default: as many as --seconds allow, at least 5)")
	flags.Float64Var(&f.seconds, "seconds", seconds, "time for the measured calls of each row")
}

func (f *effortFlags) effort() (bench.Effort, error) {
	if f.calls < 0 {
		return bench.Effort{}, usageError{fmt.Errorf("--calls is %d, it must be at least 1 (0: as many as --seconds allow)", f.calls)}
	}
	if !(f.seconds >= 0 && f.seconds <= 3600) {
		return bench.Effort{}, usageError{fmt.Errorf("--seconds is %v, valid are 0 to 3600", f.seconds)}
	}
	return bench.Effort{Calls: f.calls, Time: time.Duration(f.seconds * float64(time.Second))}, nil
}

// benchMemoryFlag is the size of the memory that is read.
type benchMemoryFlag struct{ mebibytes int }

func (f *benchMemoryFlag) register(flags *pflag.FlagSet) {
	flags.IntVar(&f.mebibytes, "memory", bench.DefaultBytes>>20, "MiB of memory that are read, much more than the caches hold")
}

func (f *benchMemoryFlag) bytes() (int, error) {
	if f.mebibytes < 1 || f.mebibytes > 1<<20 {
		return 0, usageError{fmt.Errorf("--memory is %d MiB, valid are 1 to %d", f.mebibytes, 1<<20)}
	}
	return f.mebibytes << 20, nil
}

// atLeast checks a list of numbers.
func atLeast(flag string, list []int, least, most int) error {
	if len(list) == 0 {
		return usageError{fmt.Errorf("%s is empty", flag)}
	}
	for _, n := range list {
		if n < least || n > most {
			return usageError{fmt.Errorf("%s has %d, valid are %d to %d", flag, n, least, most)}
		}
	}
	return nil
}

// freeMemory is what this process may take.
func freeMemory() bench.Memory { return bench.Memory(worker.HostMemory(hostinfo.This())) }

// hostCores are one CPU of each core that this process may use, node after node.
func hostCores() ([]int, error) {
	topology, err := numa.Read()
	if err != nil {
		return nil, err
	}
	var cores []int
	for _, n := range topology.ComputeNodes() {
		cores = append(cores, n.Cores...)
	}
	return cores, nil
}

func newBenchCommand() *cobra.Command {
	var trace benchTrace
	cmd := &cobra.Command{
		Use:   "bench",
		Short: "Measure this machine's limits, and kernels, layers and models against them",
		Long: `Figures are of the fastest call; one GB is 10^9 bytes, a multiply and an add are two operations. % of roofline is the shortest
possible time of the fastest call (bytes that must be read / measured bandwidth, or operations / measured peak, whichever is longer)
divided by its time. All commands print the same rows, as a table or with --json.

With --trace FILE nothing is measured: what run, eval or a worker recorded with --residency-trace is asked again of eviction policies and
resident limits, which prints how often the wanted experts would have been in memory, and what would have been read.`,
		Example: "  moepool run --resident-limit 2GiB --residency-trace t.ndjson 'Once upon a time'\n" +
			"  moepool bench --trace t.ndjson --resident-limit 1GiB,2GiB,1/2 --eviction next-use,lru,optimum",
		Args: func(_ *cobra.Command, args []string) error {
			if len(args) == 0 && trace.file != "" {
				return nil
			}
			if len(args) > 0 {
				return usageError{fmt.Errorf("bench can't measure %q; valid: machine, layer, kernels, model", args[0])}
			}
			return usageError{errors.New("say what to measure: moepool bench machine, layer, kernels or model; or a recorded --trace")}
		},
		RunE: func(cmd *cobra.Command, _ []string) error { return trace.run(cmd) },
	}
	trace.register(cmd.Flags())
	cmd.AddCommand(newBenchMachineCommand(), newBenchLayerCommand(), newBenchKernelsCommand(), newBenchModelCommand())
	return cmd
}
