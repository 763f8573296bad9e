package engine_test

import (
	"context"
	"math"
	"slices"
	"sync"
	"testing"

	"github.com/moepool/moepool/checkpoint"
	"github.com/moepool/moepool/coordinator/budget"
	"github.com/moepool/moepool/coordinator/engine"
	"github.com/moepool/moepool/coordinator/router"
	"github.com/moepool/moepool/internal/leaks"
	"github.com/moepool/moepool/kernels"
	"github.com/moepool/moepool/kernels/team"
)

const testdata = "../../testdata/"

func TestMain(m *testing.M) { leaks.VerifyTestMain(m) }

// localExperts computes routed experts in this process, as a worker would: parts are computed one by one and added in fixed point.
type localExperts struct {
	set   *kernels.Set
	cp    *checkpoint.Checkpoint
	parts [][][]kernels.Expert // [layer][expert][part]

	mu       sync.Mutex
	resident func(layer int, expert int32) bool // nil: none is
	observe  func(call *engine.ExpertCall)      // sees each call, after the budget
	err      func(layer int) error              // ends a call
	rowErr   func(layer, row int) error         // fails a row
	calls    int
}

// newExperts packs all experts of a checkpoint.
func newExperts(t testing.TB, cp *checkpoint.Checkpoint, set *kernels.Set, format kernels.Format, parts int) *localExperts {
	t.Helper()
	c := cp.Config()
	x := &localExperts{set: set, cp: cp, parts: make([][][]kernels.Expert, len(c.Layers))}
	for layer, l := range c.Layers {
		if !l.MoE {
			continue
		}
		for expert := range c.Experts {
			x.parts[layer] = append(x.parts[layer], nil)
			for part := range parts {
				x.parts[layer][expert] = append(x.parts[layer][expert], packExpert(t, cp, layer, expert, format, parts, part))
			}
		}
	}
	return x
}

func packExpert(t testing.TB, cp *checkpoint.Checkpoint, layer, expert int, format kernels.Format, parts, part int) kernels.Expert {
	t.Helper()
	c := cp.Config()
	from, to := kernels.PartRange(format, c.ExpertIntermediate, parts, part)
	if from >= to {
		t.Fatalf("part %d of %d is empty", part, parts)
	}
	shape := kernels.ExpertShape{Format: format, Hidden: c.Hidden, Intermediate: to - from}
	packed := shape.Split(make([]byte, shape.Bytes()))
	names := c.Expert(layer, expert)
	pack := func(m kernels.Matrix, name string, first, column int) {
		w, err := cp.Tensor(name)
		if err != nil {
			t.Fatal(err)
		}
		if format == kernels.FP8 && w.BlockFP8() {
			err = kernels.PackStored(m, func(output int, codes []byte, scales []float32) { w.StoredFP8(first+output, column, codes, scales) })
		} else {
			err = kernels.Pack(m, func(output int, dst []float32) { w.RowRange(first+output, column, dst) })
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	pack(packed.Gate, names.Gate, from, 0)
	pack(packed.Up, names.Up, from, 0)
	pack(packed.Down, names.Down, 0, from)
	return packed
}

// Compute implements engine.Experts.
func (x *localExperts) Compute(ctx context.Context, call *engine.ExpertCall) (engine.ExpertStats, error) {
	x.mu.Lock()
	defer x.mu.Unlock()
	x.calls++
	if x.observe != nil {
		x.observe(call)
	}
	if x.err != nil {
		if err := x.err(call.Layer); err != nil {
			return engine.ExpertStats{}, err
		}
	}
	if x.rowErr != nil {
		for row := range call.RowErr {
			call.RowErr[row] = x.rowErr(call.Layer, row)
		}
	}
	var stats engine.ExpertStats
	for expert, parts := range x.parts[call.Layer] {
		var rows []int32
		var weights []float32
		for row, c := range call.Choices {
			if i := slices.Index(c.Experts, int32(expert)); i >= 0 {
				rows, weights = append(rows, int32(row)), append(weights, c.Weights[i])
			}
		}
		if len(rows) == 0 {
			continue
		}
		stats.Misses += len(parts)
		for _, part := range parts {
			x.add(call, part, rows, weights)
		}
	}
	return stats, ctx.Err()
}

// add computes one expert part for some rows.
func (x *localExperts) add(call *engine.ExpertCall, part kernels.Expert, rows []int32, weights []float32) {
	hidden, width := part.Gate.Columns, part.Gate.Outputs
	gate, up := make([]float32, len(rows)*width), make([]float32, len(rows)*width)
	x.set.Multiply(gate, width, part.Gate, call.Rows, rows, 0, width)
	x.set.Multiply(up, width, part.Up, call.Rows, rows, 0, width)
	var inner kernels.Activations
	inner.Reset(part.Down.Format.Quantized(), len(rows), width)
	for i, row := range rows {
		g := gate[i*width : (i+1)*width]
		x.set.SiLUMultiply(g, g, up[i*width:(i+1)*width])
		if err := x.set.Prepare(&inner, i, g); err != nil {
			call.RowErr[row] = err
		}
	}
	y, index := make([]float32, len(rows)*hidden), make([]int32, len(rows))
	for i := range index {
		index[i] = int32(i)
	}
	x.set.Multiply(y, hidden, part.Down, &inner, index, 0, hidden)
	for i, row := range rows {
		if err := x.set.Accumulate(call.Sum[int(row)*hidden:(int(row)+1)*hidden], y[i*hidden:(i+1)*hidden], weights[i]); err != nil {
			call.RowErr[row] = err
		}
	}
}

// Snapshot implements engine.Experts.
func (x *localExperts) Snapshot() engine.Residency { return residency(x.resident) }

type residency func(layer int, expert int32) bool

func (r residency) Resident(layer int, expert int32) bool { return r != nil && r(layer, expert) }

func openCheckpoint(t testing.TB, dir string) *checkpoint.Checkpoint {
	t.Helper()
	cp, err := checkpoint.Open(dir)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = cp.Close() })
	return cp
}

func newTeam(t testing.TB, threads int) *team.Team {
	t.Helper()
	tm, err := team.New(threads, nil)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(tm.Close)
	return tm
}

func selectSet(t testing.TB, name string) *kernels.Set {
	t.Helper()
	set, err := kernels.Select(name)
	if err != nil {
		t.Fatal(err)
	}
	return set
}

// newEngine makes an engine with options that change its defaults: one format for all weights, experts in this process.
func newEngine(t testing.TB, cp *checkpoint.Checkpoint, x *localExperts, format kernels.Format, change func(*engine.Options)) *engine.Engine {
	t.Helper()
	o := engine.Options{ExpertFormat: format, DenseFormat: format, Kernels: x.set, Experts: x}
	if change != nil {
		change(&o)
	}
	if o.Team == nil {
		o.Team = newTeam(t, 2)
	}
	e, err := engine.New(cp, o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(e.Close)
	return e
}

func newSequence(t testing.TB, e *engine.Engine) *engine.Sequence {
	t.Helper()
	s, err := e.NewSequence()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(s.Close)
	return s
}

// step computes one chunk alone.
func step(t testing.TB, e *engine.Engine, s *engine.Sequence, tokens []int32, phase budget.Phase, wanted engine.LogitsWanted) []float32 {
	t.Helper()
	out, err := e.Step(t.Context(), []engine.Chunk{{Sequence: s, Tokens: tokens, Phase: phase, Logits: wanted}})
	if err != nil {
		t.Fatal(err)
	}
	if out[0].Err != nil {
		t.Fatal(out[0].Err)
	}
	return out[0].Logits
}

// argmax is greedy sampling: the lower id wins a tie.
func argmax(logits []float32) int32 {
	best := 0
	for i, v := range logits {
		if v > logits[best] {
			best = i
		}
	}
	return int32(best)
}

// greedy continues a sequence whose last logits are given by n tokens; it gives them and the logits that they were taken from.
func greedy(t testing.TB, e *engine.Engine, s *engine.Sequence, last []float32, n int) (ids []int32, logits []float32) {
	t.Helper()
	for {
		ids, logits = append(ids, argmax(last)), append(logits, last...)
		if len(ids) == n {
			return ids, logits
		}
		last = step(t, e, s, ids[len(ids)-1:], budget.Decode, engine.LastLogits)
	}
}

func maxDifference(a, b []float32) (most float64) {
	if len(a) != len(b) {
		return math.Inf(1)
	}
	for i := range a {
		d := math.Abs(float64(a[i]) - float64(b[i]))
		if !(d <= most) { // NaN, too
			most = d
		}
	}
	return most
}

func cloneChoices(rows []router.Choice) []router.Choice {
	out := make([]router.Choice, len(rows))
	for i, c := range rows {
		out[i] = router.Choice{Experts: slices.Clone(c.Experts), Weights: slices.Clone(c.Weights)}
	}
	return out
}
