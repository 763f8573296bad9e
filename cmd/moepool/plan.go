package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"text/tabwriter"

	"github.com/spf13/cobra"

	"github.com/moepool/moepool/checkpoint"
	"github.com/moepool/moepool/checkpoint/synth"
	"github.com/moepool/moepool/coordinator"
	"github.com/moepool/moepool/coordinator/attention"
	"github.com/moepool/moepool/coordinator/forecast"
	"github.com/moepool/moepool/coordinator/model"
	"github.com/moepool/moepool/internal/bytesize"
)

// maxHostsBytes is the most of a hosts.yaml that is read.
const maxHostsBytes = 1 << 20

// planFlags are the flags of `plan`.
type planFlags struct {
	model   modelFlags
	sizes   coordinatorFlags
	like    string
	hosts   string
	options forecast.Options

	simulate []int
	noise    forecast.Noise
	asJSON   bool
}

func newPlanCommand() *cobra.Command {
	f := &planFlags{}
	cmd := &cobra.Command{
		Use:   "plan --hosts FILE",
		Short: "Predict memory and speed of a model on hosts that you describe",
		Long: `Places a model's experts on the hosts of FILE as a coordinator would, and predicts what each worker holds and what a decoded token costs.
The model needs only its config.json (--model), or is one of: ` + strings.Join(synth.Models(), ", ") + ` (--like).

  hosts:
    - {name: a, nodes: 2, memory_gib: 240, read_gbps: 180, compute_gops: 9000}          # of each NUMA node; "moepool bench machine" measures
    - {name: b, count: 3, nodes: 2, memory_gib: 240, read_gbps: 180, compute_gops: 9000, round_trip_us: 250, network_gbit: 25, disk_gbps: 3}

The coordinator runs on the first host unless "coordinator: NAME" says otherwise.`,
		Args: noArguments,
		RunE: func(cmd *cobra.Command, _ []string) error { return f.run(cmd.Context(), cmd.OutOrStdout()) },
	}
	flags := cmd.Flags()
	f.model.register(flags)
	f.sizes.registerSizes(flags)
	flags.StringVar(&f.like, "like", "", "shape of a released model, instead of --model")
	flags.StringVar(&f.hosts, "hosts", "", "file that describes the hosts")
	flags.IntVar(&f.options.Rows, "rows", 1, "decoded rows of a step: so many sequences at once")
	flags.IntVar(&f.options.Replicas, "replicas", 1, "most workers that hold one expert part")
	flags.Float64Var(&f.options.Skew, "skew", 0, "how uneven routing is: exponent of Zipf's law; 0: even")
	flags.Float64Var(&f.options.Reach, "reach", forecast.DefaultReach, "share of the measured bandwidth and peak that a step reaches")
	flags.Float64Var(&f.options.PerWorkerUS, "per-worker-us", forecast.DefaultPerWorkerUS, "the coordinator's own time for each worker that it asks in a layer, in microseconds")
	flags.IntSliceVar(&f.simulate, "simulate", nil, "numbers of workers (hosts like the last one): run the dispatcher's own decisions on so many virtual workers")
	flags.Float64Var(&f.noise.Deviation, "jitter", 0.1, "with --simulate: deviation of the logarithm of a worker's time")
	flags.Float64Var(&f.noise.Stragglers, "stragglers", 0.001, fmt.Sprintf("with --simulate: share of answers that take %d times as long", forecast.StragglerFactor))
	flags.BoolVar(&f.asJSON, "json", false, "print one JSON object; with --simulate an array")
	cmd.MarkFlagsMutuallyExclusive("model", "like")
	return cmd
}

func (f *planFlags) run(ctx context.Context, out io.Writer) error {
	if f.hosts == "" {
		return usageError{errors.New("--hosts names the file that describes the hosts; \"moepool plan --help\" has an example")}
	}
	text, err := readHosts(f.hosts)
	if err != nil {
		return err
	}
	cluster, err := forecast.ParseCluster(f.hosts, text)
	if err != nil {
		return err
	}
	dir, format, _, err := f.model.resolve(ctx)
	if err != nil {
		return err
	}
	dense, kv, err := f.sizes.formats(format)
	if err != nil {
		return err
	}
	var config *checkpoint.Config
	if f.like == "" {
		config, err = checkpoint.ReadConfig(dir)
	} else {
		config, err = likeConfig(f.like)
	}
	if err != nil {
		return err
	}
	if err := coordinator.CheckParts(format, config, f.model.parts); err != nil {
		return usageError{err}
	}
	elementBytes := map[attention.Format]int{attention.F32: 4, attention.BF16: 2, attention.Int8: 1}[kv]
	size, err := forecast.NewModel(config, format, coordinator.PlacementModel(config, format, f.model.parts), model.SizeOf(config, dense), elementBytes)
	if err != nil {
		return err
	}
	f.options.Context = f.sizes.context
	if f.options.Context == 0 {
		f.options.Context = min(config.MaxPositions, 8192)
	}
	if len(f.simulate) > 0 {
		err = f.runSimulation(out, size, cluster)
	} else {
		err = f.predict(out, size, cluster)
	}
	if errors.Is(err, forecast.ErrOptions) {
		return usageError{err}
	}
	return err
}

func (f *planFlags) predict(out io.Writer, model *forecast.Model, cluster *forecast.Cluster) error {
	prediction, err := forecast.Compute(model, cluster, f.options)
	if err != nil {
		return err
	}
	if f.asJSON {
		return printJSON(out, prediction)
	}
	return printForecast(out, prediction, f.options)
}

// runSimulation prints a line for each number of workers.
func (f *planFlags) runSimulation(out io.Writer, model *forecast.Model, cluster *forecast.Cluster) error {
	results := []*forecast.Simulated{}
	for _, workers := range f.simulate {
		r, err := forecast.Simulate(model, cluster, f.options, f.noise, workers)
		if err != nil {
			return err
		}
		results = append(results, r)
	}
	if f.asJSON {
		return printJSON(out, results)
	}
	table := tabwriter.NewWriter(out, 0, 0, 2, ' ', tabwriter.AlignRight)
	fmt.Fprintln(table, "workers\tasked\tlayer ms\tp50\tp99\town µs\tper worker\thedges/step\ttokens/s\t")
	for _, r := range results {
		fmt.Fprintf(table, "%d\t%.1f\t%.3f\t%.3f\t%.3f\t%.1f\t%.2f\t%.2f\t%.1f\t\n", r.Workers, r.Asked, r.LayerMean, r.LayerP50, r.LayerP99, r.OwnPerLayer, r.OwnPerWorker,
			r.HedgesPerStep, r.TokensPerSecond)
	}
	return table.Flush()
}

// likeConfig is the configuration of a released model's shape.
func likeConfig(name string) (*checkpoint.Config, error) {
	spec, err := synth.Like(name)
	if err != nil {
		return nil, usageError{fmt.Errorf("--like: %w", err)}
	}
	return spec.Config()
}

func readHosts(path string) ([]byte, error) {
	file, err := os.Open(path)
	if err != nil {
		return nil, fmt.Errorf("--hosts: %w", err)
	}
	defer file.Close()
	text, err := io.ReadAll(io.LimitReader(file, maxHostsBytes+1))
	if err == nil && len(text) > maxHostsBytes {
		err = fmt.Errorf("%s is larger than %d bytes", path, maxHostsBytes)
	}
	if err != nil {
		return nil, fmt.Errorf("--hosts: %w", err)
	}
	return text, nil
}

func printForecast(out io.Writer, p *forecast.Forecast, o forecast.Options) error {
	fmt.Fprintf(out, "experts %s, dense weights %s (coordinator), KV cache %s (%d rows of %d positions)\n\n", bytesize.Text(p.ExpertBytes),
		bytesize.Text(p.DenseBytes), bytesize.Text(p.CacheBytes), p.Rows, o.Context)
	table := tabwriter.NewWriter(out, 0, 0, 2, ' ', tabwriter.AlignRight)
	fmt.Fprintln(table, "worker\tmemory\texperts\tparts\tin memory\t")
	for _, w := range p.Workers {
		fmt.Fprintf(table, "%s\t%s\t%s\t%d\t%.0f %%\t\n", w.ID, bytesize.Text(w.Memory), bytesize.Text(w.Experts), w.Parts, 100*w.Resident)
	}
	if err := table.Flush(); err != nil {
		return err
	}
	fmt.Fprintln(out)
	fmt.Fprintln(table, "a step\tms\t%\t")
	for _, term := range []struct {
		name    string
		seconds float64
	}{
		{"dense weights", p.Step.Dense}, {"KV cache", p.Step.Attention}, {"experts: memory", p.Step.Memory}, {"experts: multiply-adds", p.Step.Compute},
		{"experts: disk", p.Step.Disk}, {"network", p.Step.Network}, {"coordinator's dispatch", p.Step.Coordinator},
	} {
		fmt.Fprintf(table, "%s\t%.3f\t%.0f\t\n", term.name, 1e3*term.seconds, 100*term.seconds/p.Step.Seconds())
	}
	fmt.Fprintf(table, "all\t%.3f\t100\t\n", 1e3*p.Step.Seconds())
	if err := table.Flush(); err != nil {
		return err
	}
	fmt.Fprintf(out, "\n%.1f tokens/s with %d rows; a token moves %s over the network and reads %s of experts; a layer's slowest worker reads %.2f times an even share\n",
		p.TokensPerSecond, p.Rows, bytesize.Text(p.NetworkBytes), bytesize.Text(p.ReadBytes), p.Slowest)
	for _, note := range p.Notes {
		fmt.Fprintln(out, "note: "+note)
	}
	return nil
}
