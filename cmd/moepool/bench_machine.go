package main

import (
	"context"
	"fmt"

	"github.com/spf13/cobra"

	"github.com/moepool/moepool/arena"
	"github.com/moepool/moepool/cmd/moepool/internal/bench"
)

func newBenchMachineCommand() *cobra.Command {
	var (
		output  benchOutput
		memory  benchMemoryFlag
		threads int
		disk    string
	)
	cmd := &cobra.Command{
		Use:   "machine",
		Short: "The roofline: memory bandwidth and multiply-add peaks by 1..n threads, and the disk's speed",
		Long: `read: GB/s that pinned threads read from memory together, each from memory that it touched first, in the fastest of four ways (one or
four streams, with and without prefetch). int8: products of bytes (VPDPBUSD where the CPU has it, else VPMADDUBSW). f32: fused
multiply-adds. The column kernels names the CPU feature that was used. disk: sequential reads of 4 MiB past the page cache, of a
temporary file of 256 MiB; kernels names the file system. The host of a virtual machine may read such a file from its own cache.`,
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
			folder, err := diskFolder(disk)
			if err != nil {
				return err
			}
			rows := 3 * len(counts)
			if folder != "" {
				rows++
			}
			return output.rows(cmd, rows, func(ctx context.Context, _ *bars, report func(bench.Row)) error {
				m := bench.NewMachine(cores, bytes, freeMemory())
				for _, n := range counts {
					if _, err := m.Measure(ctx, n, report); err != nil {
						return err
					}
				}
				if folder == "" {
					return nil
				}
				row, err := bench.Disk(ctx, folder, bench.DiskBytes)
				if err != nil {
					return err
				}
				report(row)
				return nil
			})
		},
	}
	flags := cmd.Flags()
	flags.IntVar(&threads, "threads", 0, "most threads (default: the allowed physical cores)")
	flags.StringVar(&disk, "disk", "", "folder whose disk is measured, or none (default: where arenas are, if that is a disk that can be written to)")
	memory.register(flags)
	output.register(flags)
	return cmd
}

// diskFolder says where the disk is measured; "" is nowhere. A folder that was not asked for is taken only if it serves.
func diskFolder(flag string) (string, error) {
	if flag == "none" {
		return "", nil
	}
	if flag != "" {
		space, err := arena.Check(flag)
		if err == nil && !space.Writable {
			err = fmt.Errorf("%s can't be written to", space.Dir)
		}
		if err != nil {
			return "", usageError{fmt.Errorf("--disk: %w", err)}
		}
		return space.Dir, nil
	}
	usual, err := arena.DefaultDir()
	if err != nil {
		return "", nil // no home: nowhere
	}
	space, err := arena.Check(usual)
	if err != nil || !space.Writable || space.FileSystem == "tmpfs" || space.FreeBytes < 4*bench.DiskBytes {
		return "", nil
	}
	return space.Dir, nil
}
