//go:build linux

package main

import (
	"context"
	"fmt"
	"io"
)

// budgets are the origin's, then policies that choose by weight.
var budgets = []string{"off", "8", "6", "4", "2", "mass=0.1", "mass=0.25", "topp=0.7", "count=4,fill", "count=2,fill"}

// printBudgets is the origin's table: what a cap on a layer's distinct experts changes at a third of the memory.
func printBudgets(ctx context.Context, b *bench, w io.Writer) error {
	header(w, "budget", "prefill s", "decode s", "tokens/s", "decode", "hits", "experts dropped", "filled", "gate mass lost", "MB read a token", "MB not read a token", "killed")
	var off figures
	for i, budget := range b.budgets {
		f, err := b.measure(ctx, clusterOptions{hosts: b.this(b.third())}, budget)
		if err != nil {
			return fmt.Errorf("%s: %w", budget, err)
		}
		if i == 0 {
			off = f
		}
		row(w, "`"+budget+"`", fmt.Sprintf("%.3f", f.prefill), fmt.Sprintf("%.2f", f.decode), fmt.Sprintf("%.1f", f.speed),
			fmt.Sprintf("%+.0f %%", 100*(f.speed/off.speed-1)), percent(f.hits), fmt.Sprintf("%.0f", f.dropped), fmt.Sprintf("%.0f", f.filled), percent(f.mass),
			megabytes(f.read), megabytes(f.notRead), fmt.Sprint(f.killed))
	}
	return nil
}
