//go:build linux

package main

import (
	"context"
	"fmt"
	"io"

	"github.com/moepool/moepool/internal/lowmemory"
)

// coldPrompt is long enough that nearly every expert is needed.
const coldPrompt = 512

// printCold compares the first pass through all experts with later ones, where all of them fit into memory, and with the disk.
func printCold(ctx context.Context, b *bench, w io.Writer) error {
	files, err := arenaFiles(b.arena)
	if err != nil {
		return err
	}
	if err := lowmemory.Forget(b.arena); err != nil {
		return err
	}
	var sequential []float64
	for _, f := range files {
		speed, err := sequentialSpeed(f)
		if err != nil {
			return err
		}
		sequential = append(sequential, speed)
	}
	disk := median(sequential)
	faults, err := faultSpeed(files[0])
	if err != nil {
		return err
	}
	fmt.Fprintf(w, "The disk gives %.2f GB/s to large parallel reads that bypass the page cache; 4 KiB faults of a mapping with MADV_RANDOM get %.3f GB/s.\n\n", disk/1e9, faults/1e9)
	header(w, "start", "first pass s", "GB read in it", "GB/s", "of the disk's", "later passes s", "first against later")
	for _, arm := range []struct {
		name   string
		worker []string
	}{
		{"cold, `--warm none`", []string{"--resident-limit", "none", "--warm", "none"}},
		{"cold, `--warm all`", []string{"--resident-limit", "none", "--warm", "all"}},
	} {
		c, err := b.start(ctx, clusterOptions{hosts: b.this(0), worker: arm.worker})
		if err != nil {
			return fmt.Errorf("%s: %w", arm.name, err)
		}
		first, err := c.ask(ctx, prompt(1, coldPrompt), 1, 1, "off")
		var later []float64
		for range 5 {
			if err != nil {
				break
			}
			var a *answer
			if a, err = c.ask(ctx, prompt(1, coldPrompt), 1, 1, "off"); err == nil {
				later = append(later, a.Timings.Prefill)
			}
		}
		c.stop()
		if err != nil {
			return fmt.Errorf("%s: %w", arm.name, err)
		}
		speed, share := "", ""
		if first.Read > 100e6 {
			rate := float64(first.Read) / first.Timings.Prefill
			speed, share = fmt.Sprintf("%.2f", rate/1e9), percent(rate/disk)
		}
		row(w, arm.name, fmt.Sprintf("%.3f", first.Timings.Prefill), fmt.Sprintf("%.2f", float64(first.Read)/1e9), speed, share, fmt.Sprintf("%.3f", median(later)),
			fmt.Sprintf("%+.1f %%", 100*(first.Timings.Prefill/median(later)-1)))
	}
	return nil
}
