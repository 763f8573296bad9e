package shard

import (
	"context"
	"fmt"
	"math/rand/v2"
	"path/filepath"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/moepool/moepool/arena"
	"github.com/moepool/moepool/checkpoint"
	"github.com/moepool/moepool/checkpoint/synth"
	"github.com/moepool/moepool/internal/leaks"
	"github.com/moepool/moepool/kernels"
	"github.com/moepool/moepool/kernels/team"
	"github.com/moepool/moepool/transport"
)

func TestMain(m *testing.M) { leaks.VerifyTestMain(m) }

// openModel writes a synthetic model and opens it.
func openModel(t *testing.T, s synth.Spec) *checkpoint.Checkpoint {
	t.Helper()
	dir := filepath.Join(t.TempDir(), "model")
	if err := synth.Write(dir, s, nil); err != nil {
		t.Fatal(err)
	}
	cp, err := checkpoint.Open(dir)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { cp.Close() })
	return cp
}

// setup is how shards are loaded; the zero value is q8, one part, one thread, anonymous memory, the generic kernels, everything.
type setup struct {
	format  kernels.Format
	parts   int
	threads int
	dir     string
	kernels string
	layers  []transport.LayerParts
	change  func(*Options, *Loading)
}

// try loads shards; the store is closed with the test.
func (u setup) try(t *testing.T, cp *checkpoint.Checkpoint) (*Shards, *arena.Store, error) {
	t.Helper()
	if u.format == 0 {
		u.format = kernels.Q8
	}
	u.parts, u.threads = max(u.parts, 1), max(u.threads, 1)
	if u.kernels == "" {
		u.kernels = "generic"
	}
	if u.layers == nil {
		u.layers = Whole(cp.Config(), u.parts)
	}
	set, err := kernels.Select(u.kernels)
	if err != nil {
		t.Fatal(err)
	}
	plan, err := NewPlan(cp.Config(), u.format, u.parts, u.layers)
	if err != nil {
		t.Fatal(err)
	}
	store, err := arena.OpenStore(arena.Options{Dir: u.dir, Identity: fmt.Sprint(u.format, u.parts), Log: t.Logf})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { store.Close() })
	tm, err := team.New(u.threads, nil)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(tm.Close)
	o, l := Options{Checkpoint: cp, Store: store, Dir: store.Dir(), Team: tm, Kernels: set, Node: -1, Log: t.Logf}, Loading{Plan: plan}
	if u.change != nil {
		u.change(&o, &l)
	}
	s, err := NewHolder(o).Load(context.Background(), l)
	return s, store, err
}

func (u setup) load(t *testing.T, cp *checkpoint.Checkpoint) (*Shards, *arena.Store) {
	t.Helper()
	s, store, err := u.try(t, cp)
	if err != nil {
		t.Fatal(err)
	}
	return s, store
}

// randomWork makes rows that need some of the owned expert parts each.
func randomWork(t *testing.T, seed uint64, p *Plan, layer, rows int) *transport.Work {
	t.Helper()
	r := rand.New(rand.NewPCG(seed, 7))
	hidden := p.Shapes[0].Hidden
	set, err := kernels.Select("generic")
	if err != nil {
		t.Fatal(err)
	}
	var a kernels.Activations
	a.Reset(p.Format.Quantized(), rows, hidden)
	x := make([]float32, hidden)
	w := &transport.Work{Layer: layer, Request: seed, Attempt: 3, Rows: rows, Hidden: hidden, Quantized: a.Quantized, Offsets: []uint32{0}}
	i := slices.IndexFunc(p.Layers, func(l PlanLayer) bool { return l.Number == layer })
	owned := p.Layers[i].Owned
	for row := range rows {
		for c := range x {
			x[c] = float32(r.NormFloat64())
		}
		if err := set.Prepare(&a, row, x); err != nil {
			t.Fatal(err)
		}
		for _, id := range owned {
			if r.IntN(3) == 0 {
				w.Parts = append(w.Parts, id)
				w.Weights = append(w.Weights, r.Float32())
			}
		}
		w.Offsets = append(w.Offsets, uint32(len(w.Parts)))
	}
	w.Values, w.Codes, w.Scales = a.Values, a.Codes, a.Scales
	return w
}

// direct computes a work the slow, obvious way: row by row, expert part by expert part, with the generic kernels on weights packed for
// it alone.
func direct(t *testing.T, cp *checkpoint.Checkpoint, p *Plan, w *transport.Work) []int64 {
	t.Helper()
	set, err := kernels.Select("generic")
	if err != nil {
		t.Fatal(err)
	}
	multiply := func(m kernels.Matrix, a *kernels.Activations, row int) []float32 {
		y := make([]float32, m.Outputs)
		set.Multiply(y, m.Outputs, m, a, []int32{int32(row)}, 0, m.Outputs)
		return y
	}
	experts := map[uint32]kernels.Expert{}
	sum := make([]int64, w.Rows*w.Hidden)
	x := &kernels.Activations{Rows: w.Rows, Columns: w.Hidden, Quantized: w.Quantized, Values: w.Values, Codes: w.Codes, Scales: w.Scales}
	for row := range w.Rows {
		for i := w.Offsets[row]; i < w.Offsets[row+1]; i++ {
			id := w.Parts[i]
			e, known := experts[id]
			if !known {
				e = directExpert(t, cp, p, w.Layer, id)
				experts[id] = e
			}
			gate, up := multiply(e.Gate, x, row), multiply(e.Up, x, row)
			set.SiLUMultiply(gate, gate, up)
			var h kernels.Activations
			h.Reset(w.Quantized, 1, len(gate))
			if err := set.Prepare(&h, 0, gate); err != nil {
				t.Fatal(err)
			}
			if err := set.Accumulate(sum[row*w.Hidden:(row+1)*w.Hidden], multiply(e.Down, &h, 0), w.Weights[i]); err != nil {
				t.Fatal(err)
			}
		}
	}
	return sum
}

// directExpert packs one expert part from whole tensors.
func directExpert(t *testing.T, cp *checkpoint.Checkpoint, p *Plan, layer int, id uint32) kernels.Expert {
	t.Helper()
	config := cp.Config()
	from, to := kernels.PartRange(p.Format, config.ExpertIntermediate, p.Parts, int(id)%p.Parts)
	names := config.Expert(layer, int(id)/p.Parts)
	pack := func(name string, cut func(rows [][]float32) [][]float32) kernels.Matrix {
		tensor, err := cp.Tensor(name)
		if err != nil {
			t.Fatal(err)
		}
		rows := cut(slices.Collect(slices.Chunk(tensor.Float32(), tensor.Shape[1])))
		m := kernels.Matrix{Format: p.Format, Outputs: len(rows), Columns: len(rows[0])}
		data, free, err := arena.Anonymous(kernels.MatrixBytes(m.Format, m.Outputs, m.Columns), "test")
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(free)
		m.Data = data
		if err := kernels.Pack(m, func(o int, dst []float32) { copy(dst, rows[o]) }); err != nil {
			t.Fatal(err)
		}
		return m
	}
	someRows := func(rows [][]float32) [][]float32 { return rows[from:to] }
	someColumns := func(rows [][]float32) [][]float32 {
		for o := range rows {
			rows[o] = rows[o][from:to]
		}
		return rows
	}
	return kernels.Expert{Gate: pack(names.Gate, someRows), Up: pack(names.Up, someRows), Down: pack(names.Down, someColumns)}
}

func compute(t *testing.T, s *Shards, w *transport.Work) *transport.Result {
	t.Helper()
	var r transport.Result
	if err := s.Compute(context.Background(), w, &r); err != nil {
		t.Fatal(err)
	}
	return &r
}

// same compares sums with ==.
func same(t *testing.T, what string, got, want []int64) {
	t.Helper()
	if slices.Equal(got, want) {
		return
	}
	differ := 0
	for i := range want {
		if got[i] != want[i] {
			differ++
		}
	}
	t.Errorf("%s: %d of %d sums differ: %s", what, differ, len(want), cmp.Diff(want[:min(4, len(want))], got[:min(4, len(got))]))
}
