package shard

import (
	"context"
	"errors"
	"fmt"
	"math"
	"slices"
	"testing"

	"pgregory.net/rapid"

	_ "github.com/moepool/moepool/internal/propertyseed"

	"github.com/moepool/moepool/checkpoint/synth"
	"github.com/moepool/moepool/kernels"
	"github.com/moepool/moepool/transport"
)

// TestComputeEqualsDirect: the same bits as the slow computation, for every format, number of parts and threads, implementation, and
// with or without files.
func TestComputeEqualsDirect(t *testing.T) {
	t.Parallel()
	for i, family := range synth.Families() {
		cp := openModel(t, synth.Tiny(family))
		for _, format := range kernels.Formats() {
			for parts := 1; parts <= min(3, kernels.MaxParts(format, cp.Config().ExpertIntermediate)); parts++ {
				u := setup{format: format, parts: parts}
				plain, _ := u.load(t, cp)
				layer := plain.Plan().Layers[i%len(plain.Plan().Layers)].Number
				w := randomWork(t, uint64(parts), plain.Plan(), layer, 5)
				want := direct(t, cp, plain.Plan(), w)
				for j, name := range kernels.Available() {
					for k, threads := range []int{1, 2, 4} {
						u := setup{format: format, parts: parts, threads: threads, kernels: name}
						if (j+k)%2 == 0 {
							u.dir = t.TempDir()
						}
						s, store := u.load(t, cp)
						if files := store.Counters().Files; (files > 0) != (u.dir != "") {
							t.Fatalf("%d files in folder %q", files, u.dir)
						}
						r := compute(t, s, w)
						what := fmt.Sprintf("%s %v, %d parts, %d threads, %s, folder %q", family, format, parts, threads, name, u.dir)
						same(t, what, r.Sum, want)
						if r.RowErrors != nil || r.Request != w.Request || r.Attempt != w.Attempt || r.Rows != w.Rows || r.Hidden != w.Hidden {
							t.Errorf("%s: result %+v", what, r)
						}
					}
				}
			}
		}
	}
}

// TestGroupingDoesNotMatter: rows alone, expert parts spread over several works, small tasks and waves, in any order, give the same sums.
func TestGroupingDoesNotMatter(t *testing.T) {
	t.Parallel()
	cp := openModel(t, synth.Tiny("qwen3_moe"))
	for _, format := range []kernels.Format{kernels.BF16, kernels.Q8, kernels.Q4, kernels.MXFP4} {
		s, _ := setup{format: format, parts: 2, threads: 2, kernels: kernels.Available()[0]}.load(t, cp)
		layer := s.Plan().Layers[0].Number
		rapid.Check(t, func(rt *rapid.T) {
			rows := rapid.IntRange(1, 20).Draw(rt, "rows")
			w := randomWork(t, rapid.Uint64().Draw(rt, "seed"), s.Plan(), layer, rows)
			s.h.limits = defaultLimits
			whole := slices.Clone(compute(t, s, w).Sum)

			s.h.limits = limits{taskRows: rapid.IntRange(1, 9).Draw(rt, "rows of a task"), waveBytes: rapid.IntRange(1, 40000).Draw(rt, "bytes of a wave"), readers: 1}
			same(t, "small waves", compute(t, s, w).Sum, whole)
			s.h.limits = defaultLimits

			// Deal the pairs to three works at random; rows keep their place.
			total := make([]int64, len(whole))
			hand := rapid.SliceOfN(rapid.IntRange(0, 2), len(w.Parts), len(w.Parts)).Draw(rt, "work of each pair")
			for n := range 3 {
				some := *w
				some.Parts, some.Weights, some.Offsets = nil, nil, []uint32{0}
				for row := range w.Rows {
					for i := w.Offsets[row]; i < w.Offsets[row+1]; i++ {
						if hand[i] == n {
							some.Parts, some.Weights = append(some.Parts, w.Parts[i]), append(some.Weights, w.Weights[i])
						}
					}
					some.Offsets = append(some.Offsets, uint32(len(some.Parts)))
				}
				for i, v := range compute(t, s, &some).Sum {
					total[i] += v
				}
			}
			same(t, "three works", total, whole)

			// One row alone.
			row := rapid.IntRange(0, rows-1).Draw(rt, "row")
			same(t, "row alone", compute(t, s, onlyRow(w, row)).Sum, whole[row*w.Hidden:(row+1)*w.Hidden])
		})
	}
}

// onlyRow gives the work of one row.
func onlyRow(w *transport.Work, row int) *transport.Work {
	alone := *w
	from, to := w.Offsets[row], w.Offsets[row+1]
	alone.Rows, alone.Offsets, alone.Parts, alone.Weights = 1, []uint32{0, to - from}, w.Parts[from:to], w.Weights[from:to]
	if w.Quantized {
		padded, groups := kernels.PaddedColumns(w.Hidden), kernels.Groups(w.Hidden)
		alone.Codes, alone.Scales = w.Codes[row*padded:(row+1)*padded], w.Scales[row*groups:(row+1)*groups]
	} else {
		alone.Values = w.Values[row*w.Hidden : (row+1)*w.Hidden]
	}
	return &alone
}

// TestRowErrors: a row that can't be computed has an error and zeros, the others have their bits.
func TestRowErrors(t *testing.T) {
	t.Parallel()
	cp := openModel(t, synth.Tiny("mixtral"))
	for _, format := range []kernels.Format{kernels.F32, kernels.Q8, kernels.Q4, kernels.MXFP4} {
		for _, threads := range []int{1, 4} {
			s, _ := setup{format: format, parts: 3, threads: threads, kernels: kernels.Available()[0]}.load(t, cp)
			w := randomWork(t, 5, s.Plan(), 0, 6)
			want := slices.Clone(compute(t, s, w).Sum)
			for _, row := range []int{1, 3, 4} {
				clear(want[row*w.Hidden : (row+1)*w.Hidden])
			}
			if from, to := w.Offsets[1], w.Offsets[4]; from == to || w.Offsets[3] == w.Offsets[4] || w.Offsets[4] == w.Offsets[5] {
				t.Fatal("the rows under test have no experts")
			}
			// Row 1: one weight makes its contribution too large. Row 3: its values are too large for the intermediate. Row 4: both.
			w.Weights[w.Offsets[1]] = 1e20
			w.Weights[w.Offsets[4]] = float32(math.NaN())
			for _, row := range []int{3, 4} {
				if w.Quantized {
					groups := kernels.Groups(w.Hidden)
					for g := range groups {
						w.Scales[row*groups+g] = 1e30
					}
				} else {
					for c := range w.Hidden {
						w.Values[row*w.Hidden+c] *= 1e30
					}
				}
			}
			r := compute(t, s, w)
			if want := []uint8{0, transport.RowOverflow, 0, transport.RowNotFinite, transport.RowNotFinite, 0}; !slices.Equal(r.RowErrors, want) {
				t.Errorf("%v, %d threads: row errors %v, want %v", format, threads, r.RowErrors, want)
			}
			same(t, fmt.Sprintf("%v, %d threads", format, threads), r.Sum, want)
		}
	}
}

// TestCheckRefuses: whatever Compute would index with is checked first.
func TestCheckRefuses(t *testing.T) {
	t.Parallel()
	cp := openModel(t, synth.Tiny("mixtral"))
	s, _ := setup{layers: []transport.LayerParts{{Layer: 1, Parts: []uint32{0, 2, 5}}}}.load(t, cp)
	for name, c := range map[string]struct {
		code   transport.ErrorCode
		change func(*transport.Work)
	}{
		"no rows":            {transport.CodeMalformed, func(w *transport.Work) { w.Rows = 0 }},
		"negative rows":      {transport.CodeMalformed, func(w *transport.Work) { w.Rows = -1 }},
		"more rows":          {transport.CodeMalformed, func(w *transport.Work) { w.Rows++ }},
		"other hidden":       {transport.CodeMalformed, func(w *transport.Work) { w.Hidden = 64 }},
		"float":              {transport.CodeMalformed, func(w *transport.Work) { w.Quantized = false }},
		"values too":         {transport.CodeMalformed, func(w *transport.Work) { w.Values = make([]float32, w.Rows*w.Hidden) }},
		"short codes":        {transport.CodeMalformed, func(w *transport.Work) { w.Codes = w.Codes[1:] }},
		"short scales":       {transport.CodeMalformed, func(w *transport.Work) { w.Scales = w.Scales[1:] }},
		"code -128":          {transport.CodeMalformed, func(w *transport.Work) { w.Codes = slices.Clone(w.Codes); w.Codes[100] = -128 }},
		"short offsets":      {transport.CodeMalformed, func(w *transport.Work) { w.Offsets = w.Offsets[:w.Rows] }},
		"offsets from 1":     {transport.CodeMalformed, func(w *transport.Work) { w.Offsets = []uint32{1, 2, 3, 3} }},
		"offsets beyond":     {transport.CodeMalformed, func(w *transport.Work) { w.Offsets = []uint32{0, 1 << 31, 2, 3} }},
		"offsets descending": {transport.CodeMalformed, func(w *transport.Work) { w.Offsets = []uint32{0, 2, 1, 3} }},
		"offsets end early":  {transport.CodeMalformed, func(w *transport.Work) { w.Offsets = []uint32{0, 1, 1, 2} }},
		"no weights":         {transport.CodeMalformed, func(w *transport.Work) { w.Weights = nil }},
		"twice":              {transport.CodeMalformed, func(w *transport.Work) { w.Parts = []uint32{2, 2, 5} }},
		"not owned":          {transport.CodeNotOwned, func(w *transport.Work) { w.Parts = []uint32{0, 1, 5} }},
		"no such part":       {transport.CodeNotOwned, func(w *transport.Work) { w.Parts = []uint32{0, 2, math.MaxUint32} }},
		"other layer":        {transport.CodeNotOwned, func(w *transport.Work) { w.Layer = 0 }},
		"cut beyond":         {transport.CodeMalformed, func(w *transport.Work) { w.Cut = []transport.LayerParts{{Layer: 1}, {Layer: 7, Parts: []uint32{8}}} }},
		"cut descending":     {transport.CodeMalformed, func(w *transport.Work) { w.Cut = []transport.LayerParts{{Layer: 1, Parts: []uint32{3, 2}}} }},
		"filled twice":       {transport.CodeMalformed, func(w *transport.Work) { w.Filled = []uint32{2, 2} }},
		"no such layer":      {transport.CodeNotOwned, func(w *transport.Work) { w.Layer = -1 }},
	} {
		w := randomWork(t, 1, s.Plan(), 1, 3)
		w.Offsets, w.Parts, w.Weights = []uint32{0, 2, 2, 3}, []uint32{0, 2, 5}, []float32{1, 1, 1}
		if err := s.Compute(context.Background(), w, &transport.Result{}); err != nil {
			t.Fatalf("before %q: %v", name, err)
		}
		c.change(w)
		var remote *transport.RemoteError
		if err := s.Compute(context.Background(), w, &transport.Result{}); !errors.As(err, &remote) || remote.Code != c.code {
			t.Errorf("%s: error %v, want code %s", name, err, c.code)
		}
	}
}

// TestComputeEndsWithContext: work that nobody waits for any more is not begun.
func TestComputeEndsWithContext(t *testing.T) {
	t.Parallel()
	cp := openModel(t, synth.Tiny("mixtral"))
	s, _ := setup{}.load(t, cp)
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	if err := s.Compute(ctx, randomWork(t, 1, s.Plan(), 0, 3), &transport.Result{}); !errors.Is(err, context.Canceled) {
		t.Errorf("error %v", err)
	}
}

// TestResultIsReused: a result's memory serves the next call, and nothing of the last one shines through.
func TestResultIsReused(t *testing.T) {
	t.Parallel()
	cp := openModel(t, synth.Tiny("mixtral"))
	s, _ := setup{}.load(t, cp)
	var r transport.Result
	for seed := range uint64(6) {
		w := randomWork(t, seed, s.Plan(), int(seed%3), int(9-seed))
		if seed == 2 {
			w.Weights[0] = float32(math.Inf(1))
		}
		if err := s.Compute(context.Background(), w, &r); err != nil {
			t.Fatal(err)
		}
		fresh := compute(t, s, w)
		same(t, fmt.Sprint("work ", seed), r.Sum, fresh.Sum)
		if !slices.Equal(r.RowErrors, fresh.RowErrors) || !slices.Equal(r.Parts, fresh.Parts) || !slices.Equal(r.Hits, fresh.Hits) {
			t.Errorf("work %d: %+v, fresh %+v", seed, r, fresh)
		}
	}
}
