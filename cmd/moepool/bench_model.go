package main

import (
	"context"
	"fmt"
	"math/rand/v2"
	"os"
	"slices"
	"time"

	"github.com/spf13/cobra"

	"github.com/moepool/moepool/cmd/moepool/internal/bench"
	"github.com/moepool/moepool/coordinator"
	"github.com/moepool/moepool/coordinator/generation"
	"github.com/moepool/moepool/kernels"
)

// benchModelFlags are the flags of `bench model`.
type benchModelFlags struct {
	local    localFlags
	prompts  []int
	generate []int
	reps     int
	memory   benchMemoryFlag
	output   benchOutput
}

func newBenchModelCommand() *cobra.Command {
	f := &benchModelFlags{}
	cmd := &cobra.Command{
		Use:   "model",
		Short: "Tokens per second of a model, in llama-bench's tests",
		Long: `Starts the model as "moepool run" does and measures after a warm-up of each test. ppN: a prompt of N random tokens, until its first
token is sampled. tgN: N tokens generated one by one behind one token. t/s is the mean over the repetitions ± its standard deviation. For
tg, GB/s counts the weights that a token needs: all dense ones, and the chosen experts; % of roofline compares it with the bandwidth that all
cores of this host reach together, measured before the model is loaded. A model that fits into the caches exceeds it.`,
		Args: noArguments,
		RunE: func(cmd *cobra.Command, _ []string) error { return f.run(cmd) },
	}
	flags := cmd.Flags()
	f.local.register(flags)
	flags.IntSliceVar(&f.prompts, "pp", defaultPrompts, "prompt lengths; 0 is none")
	flags.IntSliceVar(&f.generate, "tg", []int{32}, "numbers of generated tokens; 0 is none")
	flags.IntVar(&f.reps, "reps", 5, "measured repetitions of each test")
	f.memory.register(flags)
	f.output.register(flags)
	return cmd
}

var defaultPrompts = []int{512, 64}

// modelTest is one test: a prompt of so many tokens, then so many generated after the first.
type modelTest struct {
	name             string
	prompt, generate int
}

func (f *benchModelFlags) tests() ([]modelTest, error) {
	var tests []modelTest
	if err := atLeast("--pp", f.prompts, 0, 1<<24); err != nil {
		return nil, err
	}
	if err := atLeast("--tg", f.generate, 0, 1<<24); err != nil {
		return nil, err
	}
	for _, n := range f.prompts {
		if n > 0 {
			tests = append(tests, modelTest{fmt.Sprintf("pp%d", n), n, 0})
		}
	}
	for _, n := range f.generate {
		if n > 0 {
			tests = append(tests, modelTest{fmt.Sprintf("tg%d", n), 1, n})
		}
	}
	if len(tests) == 0 {
		return nil, usageError{fmt.Errorf("--pp and --tg name no test")}
	}
	if f.reps < 1 {
		return nil, usageError{fmt.Errorf("--reps is %d, it must be at least 1", f.reps)}
	}
	return tests, nil
}

func (f *benchModelFlags) run(cmd *cobra.Command) error {
	if err := f.output.validate(cmd); err != nil {
		return err
	}
	tests, err := f.tests()
	if err != nil {
		return err
	}
	bytes, err := f.memory.bytes()
	if err != nil {
		return err
	}
	random, limit := rand.New(rand.NewPCG(7, 8)), bench.Roofline{}
	c, err := startLocal(cmd.Context(), &f.local, !f.output.quiet && !f.output.asJSON, func(c *coordinator.Coordinator) error {
		tests = f.fitting(tests, c.Context())
		for _, t := range tests {
			if most := c.Context(); t.prompt+t.generate > most {
				return fmt.Errorf("%s needs %d positions, the context holds %d (--context)", t.name, t.prompt+t.generate, most)
			}
			if err := c.Check(f.request(c, t, random)); err != nil {
				return err
			}
		}
		if !slices.ContainsFunc(tests, func(t modelTest) bool { return t.generate > 0 }) {
			return nil
		}
		cores, err := hostCores()
		if err != nil {
			return err
		}
		limit, err = bench.NewMachine(cores, bytes, freeMemory()).Measure(cmd.Context(), len(cores), nil)
		return err
	})
	if err != nil {
		return err
	}
	defer c.stop()
	return f.output.rows(cmd, len(tests), func(ctx context.Context, _ *bars, report func(bench.Row)) error {
		for _, t := range tests {
			row, err := f.measure(ctx, c.Coordinator, t, random, limit)
			if err != nil {
				return err
			}
			report(row)
		}
		return nil
	})
}

// fitting leaves out the default prompts that are longer than the context, and says so; what was asked for stays.
func (f *benchModelFlags) fitting(tests []modelTest, most int) []modelTest {
	if !slices.Equal(f.prompts, defaultPrompts) {
		return tests
	}
	return slices.DeleteFunc(tests, func(t modelTest) bool {
		if t.generate > 0 || t.prompt <= most {
			return false
		}
		fmt.Fprintf(os.Stderr, "warning: no %s, since the context holds %d positions\n", t.name, most)
		return true
	})
}

// request makes a test's request, with new random tokens.
func (f *benchModelFlags) request(c *coordinator.Coordinator, t modelTest, random *rand.Rand) coordinator.Request {
	q := coordinator.Request{MaxTokens: 1 + t.generate, IgnoreEOS: true, PrefillChunk: f.local.coordinator.prefillChunk}
	for range t.prompt {
		q.Prompt.Tokens = append(q.Prompt.Tokens, random.Int32N(int32(c.Checkpoint.Config().Vocabulary)))
	}
	return q
}

// measure runs a test once to warm up, and then as often as asked for.
func (f *benchModelFlags) measure(ctx context.Context, c *coordinator.Coordinator, t modelTest, random *rand.Rand, limit bench.Roofline) (bench.Row, error) {
	var times []time.Duration
	var speeds []float64
	for i := range 1 + f.reps {
		result, err := c.Generate(ctx, f.request(c, t, random), nil, func(generation.Piece) error { return nil })
		if ctx.Err() != nil {
			return bench.Row{}, context.Cause(ctx)
		}
		if err != nil {
			return bench.Row{}, err
		}
		if i == 0 {
			continue
		}
		took, tokens := result.Prefill, t.prompt
		if t.generate > 0 {
			took, tokens = result.Decode, t.generate
		}
		times = append(times, took)
		speeds = append(speeds, float64(tokens)/max(took, time.Nanosecond).Seconds())
	}
	return f.row(c, t, times, speeds, limit), nil
}

func (f *benchModelFlags) row(c *coordinator.Coordinator, t modelTest, times []time.Duration, speeds []float64, limit bench.Roofline) bench.Row {
	mean, deviation := bench.Mean(speeds)
	best, median := bench.Best(times), bench.Median(times)
	row := bench.Row{
		Test: t.name, Rows: t.prompt, Format: f.local.model.format, BestMS: &best, MedianMS: &median, TokensPerSecond: &mean, SD: &deviation,
	}
	for _, b := range c.Members().Workers() {
		row.Workers++
		row.Kernels, row.Threads = b.Kernels, b.Threads
	}
	if t.generate > 0 {
		speed := float64(t.generate) * f.tokenBytes(c) / best / 1e6
		share := 100 * speed / limit.GBPS
		row.GBPS, row.RooflinePercent = &speed, &share
	}
	return row
}

// tokenBytes are the weights that one token needs.
func (f *benchModelFlags) tokenBytes(c *coordinator.Coordinator) float64 {
	config := c.Checkpoint.Config()
	format, _ := kernels.ParseFormat(f.local.model.format) // checked by startLocal
	placement := coordinator.PlacementModel(config, format, f.local.model.parts)
	expert := int64(0)
	for _, b := range placement.PartBytes {
		expert += b
	}
	return float64(c.Engine.DenseBytes()) + float64(len(placement.Layers))*float64(config.TopK)*float64(expert)
}
