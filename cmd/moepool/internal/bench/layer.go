package bench

import (
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"time"

	"github.com/moepool/moepool/arena"
	"github.com/moepool/moepool/checkpoint"
	"github.com/moepool/moepool/kernels"
	"github.com/moepool/moepool/kernels/team"
	"github.com/moepool/moepool/transport"
	"github.com/moepool/moepool/worker/shard"
)

// LayerShape is the routed part of one MoE layer.
type LayerShape struct {
	Experts, TopK int
	Hidden        int // columns of gate and up
	FFN           int // their outputs, columns of down
	Layers        int // with own weights, used in turn: more memory than caches hold
	Format        kernels.Format
}

// Validate says what is wrong with a shape.
func (s LayerShape) Validate() error {
	for _, v := range []struct {
		flag        string
		value, most int
	}{
		{"--experts", s.Experts, 1 << 16}, {"--top-k", s.TopK, s.Experts}, {"--hidden", s.Hidden, 1 << 18}, {"--ffn", s.FFN, 1 << 18}, {"--layers", s.Layers, 1 << 10},
	} {
		if v.value < 1 || v.value > v.most {
			return fmt.Errorf("%s is %d, valid are 1 to %d", v.flag, v.value, v.most)
		}
	}
	return nil
}

func (s LayerShape) expert() kernels.ExpertShape {
	return kernels.ExpertShape{Format: s.Format, Hidden: s.Hidden, Intermediate: s.FFN}
}

// Layer measures a worker's computing of a MoE layer, without network and coordinator.
type Layer struct {
	Shape    LayerShape
	Rows     []int // of a call, one row of the table each
	Kernels  *kernels.Set
	Team     *team.Team
	Node     int // where the memory should lie
	Effort   Effort
	Roofline Roofline
	Memory   Memory
	Progress func(done, total int64) // of weights made, bytes; may be nil
	Log      func(format string, args ...any)
}

// Run makes the weights and measures; report gets a row for each number of rows.
func (l *Layer) Run(ctx context.Context, report func(Row)) error {
	if err := l.checkMemory(); err != nil {
		return err
	}
	shards, free, err := l.load(ctx)
	if err != nil {
		return err
	}
	defer free()
	w := &work{shape: l.Shape, random: rand.New(rand.NewPCG(1, 2))}
	var result transport.Result
	for layer := range l.Shape.Layers { // verifies and touches everything
		if err := w.fill(l.Kernels, 1); err != nil {
			return err
		}
		w.routeAll(layer)
		if err := shards.Compute(ctx, &w.Work, &result); err != nil {
			return err
		}
	}
	for _, rows := range l.Rows {
		row, err := l.measure(ctx, shards, w, rows, &result)
		if err != nil {
			return err
		}
		report(row)
	}
	return nil
}

// measure times calls of rows rows.
func (l *Layer) measure(ctx context.Context, shards *shard.Shards, w *work, rows int, result *transport.Result) (Row, error) {
	if err := w.fill(l.Kernels, rows); err != nil {
		return Row{}, err
	}
	expert := l.Shape.expert()
	operations := 2 * 3 * float64(rows) * float64(l.Shape.TopK) * float64(l.Shape.Hidden) * float64(l.Shape.FFN)
	layer, shortest, bytes := 0, time.Duration(0), 0.0
	once := func() (time.Duration, error) {
		w.route(layer)
		layer = (layer + 1) % l.Shape.Layers
		start := time.Now()
		err := shards.Compute(ctx, &w.Work, result)
		d := time.Since(start)
		if shortest == 0 || d < shortest {
			shortest, bytes = d, float64(len(result.Parts))*float64(expert.Bytes())
		}
		return d, err
	}
	for range 2 { // the scratch memory grows
		if _, err := once(); err != nil {
			return Row{}, err
		}
	}
	shortest = 0
	times, err := l.Effort.repeat(ctx, once)
	if err != nil {
		return Row{}, err
	}
	best := Best(times)
	return Row{
		Test: "layer", Rows: rows, Format: l.Shape.Format.String(), Kernels: l.Kernels.Name(), Threads: l.Team.Threads(),
		BestMS: known(best), MedianMS: known(Median(times)),
		GBPS: known(bytes / best / 1e6), GOPS: known(operations / best / 1e6),
		RooflinePercent: known(100 * 1e3 * l.Roofline.shortest(bytes, operations, l.Shape.Format.Quantized()) / best),
	}, nil
}

// checkMemory adds up weights and the rows' memory before any is taken.
func (l *Layer) checkMemory() error {
	weights := float64(l.Shape.Layers) * float64(l.Shape.Experts) * float64(l.Shape.expert().Bytes())
	rows := float64(slices.Max(l.Rows))
	// Per row: codes or values, sums, contributions; per pair: part, weight, task; a wave's intermediates are bounded (shard).
	activations := rows*(float64(l.Shape.Hidden)*20+float64(l.Shape.TopK)*24) + 128<<20
	const most = 1 << 50 // an int64 would overflow only beyond
	return l.Memory.Check(int64(min(weights+activations, most)), "the experts' weights and the rows")
}

// load makes the weights, as a worker that owns the layers whole.
func (l *Layer) load(ctx context.Context) (_ *shard.Shards, free func(), err error) {
	config := &checkpoint.Config{Hidden: l.Shape.Hidden, ExpertIntermediate: l.Shape.FFN, Experts: l.Shape.Experts, TopK: l.Shape.TopK}
	for range l.Shape.Layers {
		config.Layers = append(config.Layers, checkpoint.LayerConfig{MoE: true})
	}
	plan, err := shard.NewPlan(config, l.Shape.Format, 1, shard.Whole(config, 1))
	if err != nil {
		return nil, nil, err
	}
	weights, err := newWeights(l.Shape.expert())
	if err != nil {
		return nil, nil, err
	}
	store, err := arena.OpenStore(arena.Options{Identity: "bench", Log: l.Log})
	if err != nil {
		return nil, nil, err
	}
	holder := shard.NewHolder(shard.Options{
		Store: store, Team: l.Team, Kernels: l.Kernels, Node: l.Node, Log: l.Log,
		Pack: func(_ kernels.ExpertShape, layer, expert, _ int, dst []byte) error {
			weights.vary(dst, layer*l.Shape.Experts+expert)
			return ctx.Err()
		},
	})
	shards, err := holder.Load(ctx, shard.Loading{Plan: plan, Progress: l.Progress})
	if err != nil {
		store.Close()
		return nil, nil, err
	}
	return shards, func() { store.Close() }, nil
}
