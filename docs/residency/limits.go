//go:build linux

package main

import (
	"context"
	"fmt"
	"io"
)

// this is this host with some memory for its worker.
func (b *bench) this(limit int64) []host { return []host{{name: b.worker0, limit: limit}} }

// third is the memory that the tables are about.
func (b *bench) third() int64 { return b.experts / 3 }

// printLimits compares a worker that has room for all experts with one that has room for a third of them, under the kernel's reclaim
// and under limits of the worker's own.
func printLimits(ctx context.Context, b *bench, w io.Writer) error {
	arms := []struct {
		name   string
		limit  int64
		worker []string
	}{
		{"room for all", 0, []string{"--resident-limit", "none"}},
		{"a third, the kernel's reclaim", b.third(), []string{"--resident-limit", "none"}},
		{"a third, LRU", b.third(), []string{"--eviction", "lru"}},
		{"a third, LFU", b.third(), []string{"--eviction", "lfu"}},
		{"a third, next-use", b.third(), []string{"--eviction", "next-use"}},
	}
	header(w, "memory for experts of "+gigabytes(b.experts), "prefill s", "decode s", "tokens/s", "hits", "MB read a token", "major faults a token", "RssAnon MB",
		"peak MB", "killed", "same tokens")
	var first figures
	for i, arm := range arms {
		f, err := b.measure(ctx, clusterOptions{hosts: b.this(arm.limit), worker: arm.worker}, "off")
		if err != nil {
			return fmt.Errorf("%s: %w", arm.name, err)
		}
		if i == 0 {
			first = f
		}
		row(w, arm.name, fmt.Sprintf("%.3f", f.prefill), fmt.Sprintf("%.2f", f.decode), fmt.Sprintf("%.1f", f.speed), percent(f.hits), megabytes(f.read),
			fmt.Sprintf("%.1f", f.faults), megabytes(float64(f.anonymous)), megabytes(float64(f.peak)), fmt.Sprint(f.killed), same(first.tokens, f.tokens))
	}
	return nil
}
