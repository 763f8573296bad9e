package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/moepool/moepool/coordinator/evaluation"
	"github.com/moepool/moepool/kernels"
)

// evalFlags are the flags of `eval`.
type evalFlags struct {
	local          localFlags
	reference      string // format of the experts
	referenceDense string
	window         int
	windows        int
	rows           int
	greedy         int
	greedyPrompt   int
	warmup         int
	scratch        string
	asJSON         bool
	csv            string
	plots          []string
	quiet          bool
}

func newEvalCommand() *cobra.Command {
	f := &evalFlags{}
	cmd := &cobra.Command{
		Use:   "eval FILE",
		Short: "Measure what formats, expert budgets and memory limits cost in quality and bring in speed",
		Long: `Cuts the tokens of a text file into consecutive windows, computes each on its own from position 0, and predicts every
token of a window but the first. nll is the sum of -ln p over the predicted tokens, perplexity is exp(nll / tokens).

Windows are computed as prompts, in the prefill phase, one after another, --prefill-chunk positions in a step; that is the quickest, and
a budget does not cut it without --budget-prefill. With an expert budget, --resident-limit or --rows, and without --prefill-chunk, they are computed
token by token in the decode phase, as answers are: --rows windows at once, so that a budget sees the batch that it will see in use.

--format, --resident-limit and --expert-budget take lists: formats and limits are separated by commas, budgets by semicolons (a budget has
commas itself): --expert-budget "4;mass=0.1;count=6,fill". Each combination is an arm. Without a limit the arms of a format run one after
another on the same workers. Under a limit each begins alike: new workers, the arena files' pages dropped from the page cache, the profile
of what was needed most as it was before, then what --warm asks for and --warmup tokens without a budget. It is compared with a reference at each
predicted token by the measures of llama-perplexity --kl-divergence: kld is the sum over the vocabulary of p·ln(p/q), in nats, where p are the
reference's probabilities and q those of the arm (mean with its standard error, 99.9th percentile, maximum); rms dp is the root of the mean squared
difference of the probability of the token that follows; same top p is the share of tokens at which both have the same most likely token.
(llama-perplexity counts only the second half of each window, puts a BOS token first, and keeps the reference in 16 bits.) The
reference is the same format without a budget, computed in the same way, or --reference-format, each with exact logits in a
temporary file. In the decode phase one arm is the reference's own configuration once more, the null arm: its divergence is exactly 0, and what its speed
differs by is noise. greedy is how many tokens of a greedy continuation (--greedy) of each window's first tokens (--greedy-prompt) are those of
the reference's, on average. Arms that no other one of the same memory and reference beats in both speed and divergence are
the Pareto front: * in the table, pareto in JSON and CSV, a line in --plot. After an error or an interrupt the arms so far are printed.`,
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
	flags.Lookup("format").Usage = "weight format of the experts, or a comma-separated list: " + kernels.FormatNames()
	flags.Lookup(residentLimitFlag).Usage += "; or a list, separated by commas"
	flags.Lookup("expert-budget").Usage += `; or a list, separated by semicolons: "8;4;off"`
	flags.Lookup("prefill-chunk").Usage = "compute the text as prompts, so many positions in a step; 0 is the window"
	flags.StringVar(&f.reference, "reference-format", "", "weight format of the experts of a reference to compare with (default: each format without a budget): "+kernels.FormatNames())
	flags.StringVar(&f.referenceDense, "reference-dense-format", "", "dense weight format of the reference (default: --reference-format, but q8 when experts have 4 bits)")
	flags.IntVar(&f.window, "window", 256, "tokens of a window")
	flags.IntVar(&f.windows, "windows", 0, "only the first N windows of the text; 0 is all")
	flags.IntVar(&f.rows, "rows", 1, "compute the text token by token in the decode phase, so many windows at once")
	flags.IntVar(&f.greedy, "greedy", 64, "tokens of the greedy continuations that are compared in the decode phase; 0 is none")
	flags.IntVar(&f.greedyPrompt, "greedy-prompt", 32, "a window's first tokens that are continued")
	flags.IntVar(&f.warmup, "warmup", 64, "with a resident limit, tokens of each of --rows windows that each arm computes first, without a budget and not measured")
	flags.StringVar(&f.scratch, "scratch-dir", "", "folder of the temporary file with the reference's logits (default: the system's)")
	flags.BoolVar(&f.asJSON, "json", false, "print an array of rows")
	flags.StringVar(&f.csv, "csv", "", "file for the rows as CSV")
	flags.StringSliceVar(&f.plots, "plot", nil, "file for a picture of speed against divergence, or perplexity without a reference: NAME.svg or NAME.png (repeatable)")
	flags.BoolVarP(&f.quiet, "quiet", "q", false, "no progress on stderr")
	return cmd
}

func (f *evalFlags) run(cmd *cobra.Command, file string) error {
	plan, err := f.plan(cmd.Flags())
	if err != nil {
		return err
	}
	text, err := os.ReadFile(file)
	if err != nil {
		return err
	}
	e := &evaluator{flags: f, plan: plan, file: file, text: string(text), show: !f.quiet && !f.asJSON}
	defer e.close()
	err = e.run(cmd.Context())
	if err != nil && len(e.rows) == 0 {
		return err
	}
	return errors.Join(err, e.write(cmd.OutOrStdout())) // what was measured before an error is not lost
}

// write writes the rows in all forms that are asked for.
func (e *evaluator) write(out io.Writer) error {
	f := e.flags
	markFront(e.rows)
	if f.csv != "" {
		if err := writeFileWith(f.csv, func(w *os.File) error { return writeRowsCSV(w, e.rows) }); err != nil {
			return fmt.Errorf("--csv: %w", err)
		}
	}
	for _, path := range f.plots {
		if err := plotRows(path, e.rows); err != nil {
			return fmt.Errorf("--plot: %w", err)
		}
	}
	if f.asJSON {
		return printJSON(out, e.rows)
	}
	return printRows(out, e.rows)
}

// close frees what the evaluation holds.
func (e *evaluator) close() {
	e.stop()
	if err := e.restoreProfiles(); err != nil {
		fmt.Fprintf(os.Stderr, "%sthe profile of what earlier runs needed most: %v\n", warningPrefix, err)
	}
	for _, r := range e.references {
		if err := r.logits.Close(); err != nil {
			fmt.Fprintf(os.Stderr, "%sthe reference's temporary file: %v\n", warningPrefix, err)
		}
	}
}

// anyGiven says whether one of the flags was set, by its variable too.
func anyGiven(flags *pflag.FlagSet, names ...string) bool {
	for _, name := range names {
		if given(flags, name) {
			return true
		}
	}
	return false
}

// feed is the shape in which windows are computed.
func (p *evalPlan) feed(arm *evalArm) evaluation.Feed {
	return evaluation.Feed{Chunk: p.chunk, Rows: p.rows, Budget: &arm.policy}
}

func (e *evaluator) run(ctx context.Context) error {
	for _, format := range e.plan.formats {
		for _, limit := range e.plan.limits {
			if err := e.measure(ctx, format, limit); err != nil {
				return err
			}
		}
	}
	return nil
}
