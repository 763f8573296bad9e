package main

import (
	"context"
	"fmt"
	"os"

	"github.com/spf13/cobra"

	"github.com/moepool/moepool/cmd/moepool/internal/bench"
	"github.com/moepool/moepool/kernels"
	"github.com/moepool/moepool/kernels/team"
	"github.com/moepool/moepool/numa"
)

// benchLayerFlags are the flags of `bench layer`.
type benchLayerFlags struct {
	shape   bench.LayerShape
	format  string
	kernels string
	rows    []int
	threads int
	node    int
	effort  effortFlags
	memory  benchMemoryFlag
	output  benchOutput
}

func newBenchLayerCommand() *cobra.Command {
	f := &benchLayerFlags{}
	cmd := &cobra.Command{
		Use:   "layer",
		Short: "One MoE layer's experts as a worker computes them, with fresh random routing in each call",
		Long: `Makes random weights of the shape, computes calls of so many rows with the code of a worker (no network, no coordinator), and compares
with the limits of the machine, which it measures first with as many threads. GB/s counts each distinct expert of a call once. A call
finds some experts in the last cache if that is large: --layers 4 uses four layers in turn.`,
		Args: noArguments,
		RunE: func(cmd *cobra.Command, _ []string) error { return f.run(cmd) },
	}
	flags := cmd.Flags()
	flags.IntVar(&f.shape.Experts, "experts", 128, "experts of the layer")
	flags.IntVar(&f.shape.TopK, "top-k", 8, "experts of a row")
	flags.IntVar(&f.shape.Hidden, "hidden", 2048, "width of the hidden state")
	flags.IntVar(&f.shape.FFN, "ffn", 768, "intermediate width of an expert")
	flags.IntVar(&f.shape.Layers, "layers", 1, "layers with weights of their own, used in turn")
	flags.StringVar(&f.format, "format", "q8", "weight format of the experts: "+kernels.FormatNames())
	flags.StringVar(&f.kernels, "kernels", "auto", kernelsUsage())
	flags.IntSliceVar(&f.rows, "rows", []int{1, 8, 64, 512}, "rows (token positions) of a call")
	flags.IntVar(&f.threads, "threads", 0, "threads (default: the node's physical cores)")
	flags.IntVar(&f.node, "node", -1, "NUMA node; -1 is the first")
	f.effort.register(flags, 1)
	f.memory.register(flags)
	f.output.register(flags)
	return cmd
}

func (f *benchLayerFlags) run(cmd *cobra.Command) error {
	if err := f.output.validate(cmd); err != nil {
		return err
	}
	var err error
	if f.shape.Format, err = kernels.ParseFormat(f.format); err != nil {
		return usageError{fmt.Errorf("--format: %w", err)}
	}
	set, err := kernels.Select(f.kernels)
	if err != nil {
		return usageError{fmt.Errorf("--kernels: %w", err)}
	}
	if err := f.shape.Validate(); err != nil {
		return usageError{err}
	}
	if err := atLeast("--rows", f.rows, 1, 1<<20); err != nil {
		return err
	}
	effort, err := f.effort.effort()
	if err != nil {
		return err
	}
	bytes, err := f.memory.bytes()
	if err != nil {
		return err
	}
	node, err := f.seat()
	if err != nil {
		return err
	}
	return f.output.rows(cmd, len(f.rows), func(ctx context.Context, bars *bars, report func(bench.Row)) error {
		memory := freeMemory()
		roof, err := bench.NewMachine(node.Cores, bytes, memory).Measure(ctx, min(f.threads, len(node.Cores)), nil)
		if err != nil {
			return err
		}
		t, err := team.New(f.threads, node.Cores)
		if err != nil {
			return err
		}
		defer t.Close()
		log := bars.log
		l := bench.Layer{
			Shape: f.shape, Rows: f.rows, Kernels: set, Team: t, Node: node.ID, Effort: effort, Roofline: roof, Memory: memory,
			Progress: func(done, total int64) { bars.bytes("weights", done, total) },
			Log:      func(format string, args ...any) { quietly(log, format, args...) },
		}
		return l.Run(ctx, report)
	})
}

// seat finds the node and completes the number of threads.
func (f *benchLayerFlags) seat() (*numa.Node, error) {
	topology, err := numa.Read()
	if err != nil {
		return nil, err
	}
	node := &topology.ComputeNodes()[0]
	if f.node != -1 {
		if node, err = topology.Node(f.node); err != nil {
			return nil, usageError{fmt.Errorf("--node: %w", err)}
		}
	}
	switch {
	case f.threads < 0:
		return nil, usageError{fmt.Errorf("--threads is %d, it must be at least 1 (0: the node's physical cores)", f.threads)}
	case f.threads == 0:
		f.threads = len(node.Cores)
	case f.threads > len(node.Cores):
		fmt.Fprintf(os.Stderr, "warning: --threads %d is more than the %d allowed cores of node %d\n", f.threads, len(node.Cores), node.ID)
	}
	return node, nil
}
