package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"text/tabwriter"

	"github.com/spf13/cobra"

	"github.com/moepool/moepool/coordinator"
	"github.com/moepool/moepool/coordinator/evaluation"
	"github.com/moepool/moepool/kernels"
)

// evalFlags are the flags of `eval`.
type evalFlags struct {
	local          localFlags
	reference      string // format of the experts
	referenceDense string
	window         int
	asJSON         bool
	quiet          bool
}

// evalRow is one row of `eval --json`.
type evalRow struct {
	Format     string  `json:"format"`
	Perplexity float64 `json:"perplexity"`
	NLL        float64 `json:"nll"`    // summed over the predicted tokens
	Tokens     int     `json:"tokens"` // predicted
	*DivergenceRow
}

// DivergenceRow is what a row of `eval --json` has more with --reference-format.
type DivergenceRow struct {
	Reference           string  `json:"reference_format"`
	ReferencePerplexity float64 `json:"reference_perplexity"`
	KLDMean             float64 `json:"kld_mean"` // nats a token
	KLDP999             float64 `json:"kld_p999"` // 99.9 % of the tokens have less
	KLDMax              float64 `json:"kld_max"`
	RMSDeltaP           float64 `json:"rms_dp"`     // a fraction of 1
	SameTopP            float64 `json:"same_top_p"` // a fraction of 1
}

func newEvalCommand() *cobra.Command {
	f := &evalFlags{}
	cmd := &cobra.Command{
		Use:   "eval FILE",
		Short: "Measure the perplexity of a text file, and the divergence from a reference format",
		Long: `Cuts the tokens of a text file into consecutive windows, computes each on its own from position 0, and predicts every
token of a window but the first. nll is the sum of -ln p over the predicted tokens, perplexity is exp(nll / tokens).

With --reference-format the model also runs in that format, without a budget, and the two are compared at each predicted token by
the measures of llama-perplexity --kl-divergence: kld is the sum over the vocabulary of p·ln(p/q), in nats, where p are the
reference's probabilities and q those of --format (mean, 99.9th percentile, maximum); rms dp is the root of the mean squared difference
of the probability of the token that follows; same top p is the share of tokens at which both have the same most likely token.
Both models are in memory; logits are compared chunk by chunk (--prefill-chunk) and not kept.`,
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
	flags.StringVar(&f.reference, "reference-format", "", "weight format of the experts of a reference to compare with: "+kernels.FormatNames())
	flags.StringVar(&f.referenceDense, "reference-dense-format", "", "dense weight format of the reference (default: --reference-format, but q8 when experts have 4 bits)")
	flags.IntVar(&f.window, "window", 256, "tokens of a window")
	flags.BoolVar(&f.asJSON, "json", false, "print an array of rows")
	flags.BoolVarP(&f.quiet, "quiet", "q", false, "no progress on stderr")
	return cmd
}

func (f *evalFlags) run(cmd *cobra.Command, file string) error {
	if f.window < 2 {
		return usageError{fmt.Errorf("--window is %d, it must be at least 2", f.window)}
	}
	reference, err := f.referenceFlags()
	if err != nil {
		return err
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
	var other *cluster
	if reference != nil {
		if other, err = startLocal(ctx, reference, show, func(*coordinator.Coordinator) error { return nil }); err != nil {
			return fmt.Errorf("the reference: %w", err)
		}
		defer other.stop()
	}
	row, err := f.measure(ctx, c, other, windows, show)
	if err != nil {
		return err
	}
	if f.asJSON {
		return printJSON(cmd.OutOrStdout(), []evalRow{row})
	}
	return row.print(cmd.OutOrStdout())
}

// referenceFlags are the flags of the reference's model, nil without one: the same as the model's but for formats and budget.
func (f *evalFlags) referenceFlags() (*localFlags, error) {
	if f.reference == "" {
		if f.referenceDense != "" {
			return nil, usageError{errors.New("--reference-dense-format needs --reference-format")}
		}
		return nil, nil
	}
	if _, err := kernels.ParseFormat(f.reference); err != nil {
		return nil, usageError{fmt.Errorf("--reference-format: %w", err)}
	}
	if f.referenceDense != "" {
		if _, err := kernels.ParseFormat(f.referenceDense); err != nil {
			return nil, usageError{fmt.Errorf("--reference-dense-format: %w", err)}
		}
	}
	r := f.local
	r.model.format, r.coordinator.denseFormat, r.coordinator.kvFormat = f.reference, f.referenceDense, ""
	r.coordinator.expertBudget = "off"
	return &r, nil
}

// measure evaluates a model, against another one unless that is nil.
func (f *evalFlags) measure(ctx context.Context, c, reference *cluster, windows [][]int32, show bool) (evalRow, error) {
	bars := newBars(newLogger(true), show)
	defer bars.finish()
	chunk := f.local.coordinator.prefillChunk
	if chunk == 0 {
		chunk = f.window
	}
	progress := func(window int) { bars.count("windows", int64(window+1), int64(len(windows))) }
	row := evalRow{Format: f.local.model.format}
	set := func(p evaluation.Perplexity) { row.Perplexity, row.NLL, row.Tokens = p.Value(), p.NLL, p.Tokens }
	if reference == nil {
		p, err := evaluation.Measure(ctx, c.Engine, windows, chunk, progress)
		set(p)
		return row, err
	}
	divergences, err := evaluation.Compare(ctx, reference.Engine, []evaluation.Engine{c.Engine}, windows, chunk, progress)
	if err != nil {
		return row, err
	}
	d := divergences[0]
	set(d.Run)
	row.DivergenceRow = &DivergenceRow{
		Reference: f.reference, ReferencePerplexity: d.Reference.Value(), KLDMean: d.MeanKLD(), KLDP999: d.QuantileKLD(0.999),
		KLDMax: d.QuantileKLD(1), RMSDeltaP: d.RMSDeltaP(), SameTopP: d.SameTopP(),
	}
	return row, nil
}

// print writes the row as a table.
func (r *evalRow) print(out io.Writer) error {
	table := tabwriter.NewWriter(out, 0, 0, 2, ' ', tabwriter.AlignRight)
	fmt.Fprintf(table, "format\tperplexity\tnll\ttokens\t\n%s\t%.4f\t%.2f\t%d\t\n", r.Format, r.Perplexity, r.NLL, r.Tokens)
	if err := table.Flush(); err != nil || r.DivergenceRow == nil {
		return err
	}
	fmt.Fprintf(table, "\nreference\tperplexity\tkld mean\t99.9 %%\tmax\trms dp\tsame top p\t\n%s\t%.4f\t%.6f\t%.4f\t%.4f\t%.3f %%\t%.2f %%\t\n",
		r.Reference, r.ReferencePerplexity, r.KLDMean, r.KLDP999, r.KLDMax, 100*r.RMSDeltaP, 100*r.SameTopP)
	return table.Flush()
}
