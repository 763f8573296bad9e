package main

import (
	"errors"
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	"github.com/moepool/moepool/checkpoint/synth"
	"github.com/moepool/moepool/internal/bytesize"
)

type synthReport struct {
	Dir   string `json:"dir"`
	Like  string `json:"like"`
	Bytes int64  `json:"bytes"`
}

func newSynthCommand() *cobra.Command {
	var (
		like       string
		layers     int
		vocabulary int
		experts    int
		topK       int
		seed       uint64
		skew       float64
		deviation  float64
		asJSON     bool
	)
	cmd := &cobra.Command{
		Use:   "synth DIR",
		Short: "Write a random checkpoint of a real model's shape",
		Long:  "Writes a Hugging Face folder with random weights, for benchmarks and tests. Shapes: " + strings.Join(synth.Models(), ", ") + ".",
		Args: func(cmd *cobra.Command, args []string) error {
			if len(args) != 1 {
				return usageError{errors.New("synth needs the folder to write")}
			}
			return nil
		},
		RunE: func(cmd *cobra.Command, args []string) error {
			spec, err := synth.Like(like)
			if err != nil {
				return usageError{fmt.Errorf("--like: %w", err)}
			}
			if layers > 0 {
				spec.Layers = layers
			}
			if vocabulary > 0 {
				spec.Vocabulary = vocabulary
			}
			if experts > 0 {
				spec.Experts = experts
			}
			if topK > 0 {
				spec.TopK = topK
			}
			spec.Seed, spec.RouterSkew = seed, skew
			if cmd.Flags().Changed("deviation") {
				spec.Deviation = deviation
			}
			bars := newBars(newLogger(true), !asJSON)
			defer bars.finish()
			report := synthReport{Dir: args[0], Like: like}
			err = synth.WriteContext(cmd.Context(), args[0], spec, func(done, total int64) {
				report.Bytes = total
				bars.bytes("weights", done, total)
			})
			if err != nil {
				return err
			}
			bars.finish()
			if asJSON {
				return printJSON(cmd.OutOrStdout(), report)
			}
			fmt.Fprintf(cmd.OutOrStdout(), "%s: %s with random weights, %s\n", report.Dir, like, bytesize.Text(report.Bytes))
			return nil
		},
	}
	flags := cmd.Flags()
	flags.StringVar(&like, "like", "qwen3-30b-a3b", "shape of a real model")
	flags.IntVar(&layers, "layers", 0, "layers (default: the model's)")
	flags.IntVar(&vocabulary, "vocabulary", 0, "vocabulary (default: the model's)")
	flags.IntVar(&experts, "experts", 0, "experts of a layer (default: the model's)")
	flags.IntVar(&topK, "top-k", 0, "experts of a token (default: the model's)")
	flags.Uint64Var(&seed, "seed", 1, "seed of the weights")
	flags.Float64Var(&deviation, "deviation", 0.02, "standard deviation of the weights; 0: each matrix its own, so that activations stay near 1 and tokens differ in routing")
	flags.Float64Var(&skew, "router-skew", 0, "makes some experts more popular, as trained routers do: the deviation of the logarithm of the router rows' norms (0 to 4)")
	flags.BoolVar(&asJSON, "json", false, "print one JSON object")
	return cmd
}
