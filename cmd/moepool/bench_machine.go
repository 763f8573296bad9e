package main

import (
	"context"
	"fmt"

	"github.com/spf13/cobra"

	"github.com/moepool/moepool/cmd/moepool/internal/bench"
)

func newBenchMachineCommand() *cobra.Command {
	var (
		output  benchOutput
		memory  benchMemoryFlag
		threads int
	)
	cmd := &cobra.Command{
		Use:   "machine",
		Short: "The roofline: memory bandwidth and multiply-add peaks by 1..n threads",
		Long: `read: GB/s that pinned threads read from memory together, each from memory that it touched first, in the fastest of four ways (one or
four streams, with and without prefetch). int8: products of bytes (VPDPBUSD where the CPU has it, else VPMADDUBSW). f32: fused
multiply-adds. The column kernels names the CPU feature that was used.`,
		Args: noArguments,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if err := output.validate(cmd); err != nil {
				return err
			}
			bytes, err := memory.bytes()
			if err != nil {
				return err
			}
			cores, err := hostCores()
			if err != nil {
				return err
			}
			if threads < 0 || threads > len(cores) {
				return usageError{fmt.Errorf("--threads is %d, valid are 1 to %d, the allowed cores (0: all)", threads, len(cores))}
			}
			if threads == 0 {
				threads = len(cores)
			}
			counts := bench.ThreadCounts(threads)
			return output.rows(cmd, 3*len(counts), func(ctx context.Context, _ *bars, report func(bench.Row)) error {
				m := bench.NewMachine(cores, bytes, freeMemory())
				for _, n := range counts {
					if _, err := m.Measure(ctx, n, report); err != nil {
						return err
					}
				}
				return nil
			})
		},
	}
	flags := cmd.Flags()
	flags.IntVar(&threads, "threads", 0, "most threads (default: the allowed physical cores)")
	memory.register(flags)
	output.register(flags)
	return cmd
}
