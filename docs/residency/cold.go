//go:build linux

package main

import (
	"context"
	"fmt"
	"io"

	"github.com/moepool/moepool/internal/lowmemory"
)

// coldPrompt is long enough that most experts are needed.
const coldPrompt = 512

// coldPass is the first pass after a cold start: a long prompt.
type coldPass struct{ disk, seconds, bytes, speed, share float64 }

// printCold compares the first pass and the first answer after a cold start with later ones, where all experts fit into memory, and
// with the disk.
func printCold(ctx context.Context, b *bench, w io.Writer) error {
	files, err := arenaFiles(b.arena)
	if err != nil {
		return err
	}
	var passes []coldPass
	for range b.rounds {
		if err := lowmemory.Forget(b.arena); err != nil {
			return err
		}
		disk, err := sequentialSpeed(files[0]) // just before: others use the disk, too
		if err != nil {
			return err
		}
		first, _, err := b.firstAndLater(ctx, "none", coldPrompt, 1)
		if err != nil {
			return err
		}
		p := coldPass{disk: disk, seconds: first.seconds(), bytes: float64(first.Read)}
		p.speed = p.bytes / p.seconds
		p.share = p.speed / disk
		passes = append(passes, p)
	}
	if err := lowmemory.Forget(b.arena); err != nil {
		return err
	}
	faults, err := faultSpeed(files[0])
	if err != nil {
		return err
	}
	header(w, fmt.Sprintf("a prompt of %d tokens, everything cold", coldPrompt), "s", "GB read", "GB/s", "the disk's GB/s", "of the disk's speed")
	for _, p := range passes {
		row(w, "", fmt.Sprintf("%.2f", p.seconds), fmt.Sprintf("%.2f", p.bytes/1e9), fmt.Sprintf("%.2f", p.speed/1e9), fmt.Sprintf("%.2f", p.disk/1e9), percent(p.share))
	}
	fmt.Fprintf(w, "\nThe disk's speed is that of large parallel reads past the page cache. Faults of 4 KiB in a mapping with MADV_RANDOM read %.3f GB/s.\n\n", faults/1e9)

	header(w, fmt.Sprintf("an answer of %d tokens, everything cold at the start", b.tokens), "first s", "later s", "first against later, each round")
	for _, warm := range []string{"none", "all"} {
		var firsts, laters []float64
		ratios := ""
		for range b.rounds {
			if err := lowmemory.Forget(b.arena); err != nil {
				return err
			}
			first, later, err := b.firstAndLater(ctx, warm, promptLength, b.tokens)
			if err != nil {
				return err
			}
			firsts, laters = append(firsts, first.seconds()), append(laters, later)
			ratios += fmt.Sprintf("%+.1f %% ", 100*(first.seconds()/later-1))
		}
		row(w, "`--warm "+warm+"`", fmt.Sprintf("%.2f", median(firsts)), fmt.Sprintf("%.2f", median(laters)), ratios)
	}
	return nil
}

func (a *answer) seconds() float64 { return a.Timings.Prefill + a.Timings.Decode }

// firstAndLater starts a cluster that has room for all, and asks it the same several times.
func (b *bench) firstAndLater(ctx context.Context, warm string, promptTokens, tokens int) (first *answer, later float64, err error) {
	c, err := b.start(ctx, clusterOptions{hosts: b.this(0), worker: []string{"--resident-limit", "none", "--warm", warm}})
	if err != nil {
		return nil, 0, err
	}
	defer c.stop()
	if first, err = c.ask(ctx, prompt(1, promptTokens), tokens, 1, "off"); err != nil {
		return nil, 0, err
	}
	var times []float64
	for range 3 {
		a, err := c.ask(ctx, prompt(1, promptTokens), tokens, 1, "off")
		if err != nil {
			return nil, 0, err
		}
		times = append(times, a.seconds())
	}
	return first, median(times), nil
}
