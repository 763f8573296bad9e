package main

import (
	"errors"
	"fmt"
	"os"
	"text/tabwriter"

	"github.com/spf13/cobra"

	"github.com/moepool/moepool/coordinator"
	"github.com/moepool/moepool/coordinator/evaluation"
)

// evalFlags are the flags of `eval`.
type evalFlags struct {
	local  localFlags
	window int
	asJSON bool
	quiet  bool
}

// evalRow is one row of `eval --json`.
type evalRow struct {
	Format     string  `json:"format"`
	Perplexity float64 `json:"perplexity"`
	NLL        float64 `json:"nll"`    // summed over the predicted tokens
	Tokens     int     `json:"tokens"` // predicted
}

func newEvalCommand() *cobra.Command {
	f := &evalFlags{}
	cmd := &cobra.Command{
		Use:   "eval FILE",
		Short: "Measure the perplexity of a text file",
		Long: `Cuts the tokens of a text file into consecutive windows, computes each on its own from position 0, and predicts every
token of a window but the first. nll is the sum of -ln p over the predicted tokens, perplexity is exp(nll / tokens).`,
		Args: func(cmd *cobra.Command, args []string) error {
			if len(args) != 1 {
				return usageError{errors.New("eval needs one text file")}
			}
			return nil
		},
		RunE: func(cmd *cobra.Command, args []string) error { return f.run(cmd, args[0]) },
	}
	flags := cmd.Flags()
	f.local.register(flags)
	flags.IntVar(&f.window, "window", 256, "tokens of a window")
	flags.BoolVar(&f.asJSON, "json", false, "print an array of rows")
	flags.BoolVarP(&f.quiet, "quiet", "q", false, "no progress on stderr")
	return cmd
}

func (f *evalFlags) run(cmd *cobra.Command, file string) error {
	if f.window < 2 {
		return usageError{fmt.Errorf("--window is %d, it must be at least 2", f.window)}
	}
	text, err := os.ReadFile(file)
	if err != nil {
		return err
	}
	ctx := cmd.Context()
	show := !f.quiet && !f.asJSON
	var windows [][]int32
	c, err := startLocal(ctx, &f.local, show, func(c *coordinator.Coordinator) error {
		ids := c.Tokenizer.Encode(string(text), false)
		if len(ids) < 2 {
			return fmt.Errorf("%s has %d tokens: there is nothing to predict", file, len(ids))
		}
		windows = evaluation.Windows(ids, f.window)
		return nil
	})
	if err != nil {
		return err
	}
	defer c.stop()
	bars := newBars(newLogger(true), show)
	defer bars.finish()
	chunk := f.local.coordinator.prefillChunk
	if chunk == 0 {
		chunk = f.window
	}
	p, err := evaluation.Measure(ctx, c.Engine, windows, chunk, func(window int, _ float64) {
		bars.count("windows", int64(window+1), int64(len(windows)))
	})
	if err != nil {
		return err
	}
	bars.finish()
	row := evalRow{Format: f.local.model.format, Perplexity: p.Value(), NLL: p.NLL, Tokens: p.Tokens}
	if f.asJSON {
		return printJSON(cmd.OutOrStdout(), []evalRow{row})
	}
	table := tabwriter.NewWriter(cmd.OutOrStdout(), 0, 0, 2, ' ', tabwriter.AlignRight)
	fmt.Fprintf(table, "format\tperplexity\tnll\ttokens\t\n%s\t%.4f\t%.2f\t%d\t\n", row.Format, row.Perplexity, row.NLL, row.Tokens)
	return table.Flush()
}
