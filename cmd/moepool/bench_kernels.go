package main

import (
	"context"
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	"github.com/moepool/moepool/cmd/moepool/internal/bench"
	"github.com/moepool/moepool/kernels"
)

// benchKernelsFlags are the flags of `bench kernels`.
type benchKernelsFlags struct {
	multiply bench.Multiply
	formats  []string
	kernels  []string
	effort   effortFlags
	memory   benchMemoryFlag
	output   benchOutput
}

func newBenchKernelsCommand() *cobra.Command {
	f := &benchKernelsFlags{}
	cmd := &cobra.Command{
		Use:   "kernels",
		Short: "Each implementation, format and number of rows on one matrix, from the cache and from memory, on one thread",
		Long: `Multiplies a packed matrix with so many rows on one pinned thread. cache: the same matrix again and again; memory: matrix after matrix.
GB/s is of packed weights. In the cache the roofline is the multiply-add peak alone.`,
		Args: noArguments,
		RunE: func(cmd *cobra.Command, _ []string) error { return f.run(cmd) },
	}
	flags := cmd.Flags()
	flags.StringSliceVar(&f.formats, "format", nil, "weight formats (default: all, "+kernels.FormatNames()+")")
	flags.StringSliceVar(&f.kernels, "kernels", nil, "kernels (default: all that this CPU runs; known are "+strings.Join(kernels.Known(), ", ")+")")
	flags.IntSliceVar(&f.multiply.Rows, "rows", []int{1, 8, 64}, "rows (token positions) of a call")
	flags.IntVar(&f.multiply.Outputs, "outputs", 768, "outputs of the matrix")
	flags.IntVar(&f.multiply.Columns, "columns", 2048, "columns of the matrix")
	f.effort.register(flags, 0.25)
	f.memory.register(flags)
	f.output.register(flags)
	return cmd
}

func (f *benchKernelsFlags) run(cmd *cobra.Command) error {
	if err := f.output.validate(cmd); err != nil {
		return err
	}
	m := &f.multiply
	m.Formats, m.Sets = nil, nil
	if len(f.formats) == 0 {
		m.Formats = kernels.Formats()
	}
	for _, name := range f.formats {
		format, err := kernels.ParseFormat(name)
		if err != nil {
			return usageError{fmt.Errorf("--format: %w", err)}
		}
		m.Formats = append(m.Formats, format)
	}
	names := f.kernels
	if len(names) == 0 {
		names = kernels.Available()
	}
	for _, name := range names {
		set, err := kernels.Select(name)
		if err != nil {
			return usageError{fmt.Errorf("--kernels: %w", err)}
		}
		m.Sets = append(m.Sets, set)
	}
	if err := m.Validate(); err != nil {
		return usageError{err}
	}
	if err := atLeast("--rows", m.Rows, 1, 1<<16); err != nil {
		return err
	}
	var err error
	if m.Effort, err = f.effort.effort(); err != nil {
		return err
	}
	if m.Bytes, err = f.memory.bytes(); err != nil {
		return err
	}
	cores, err := hostCores()
	if err != nil {
		return err
	}
	return f.output.rows(cmd, m.Count(), func(ctx context.Context, _ *bars, report func(bench.Row)) error {
		m.CPU, m.Memory = cores[0], freeMemory()
		var err error
		if m.Roofline, err = bench.NewMachine(cores, m.Bytes, m.Memory).Measure(ctx, 1, nil); err != nil {
			return err
		}
		return m.Run(ctx, report)
	})
}
