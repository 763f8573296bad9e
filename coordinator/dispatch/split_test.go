package dispatch

import (
	"errors"
	"fmt"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/moepool/moepool/coordinator/engine"
	"github.com/moepool/moepool/coordinator/placement"
	"github.com/moepool/moepool/coordinator/router"
	"github.com/moepool/moepool/kernels"
	"pgregory.net/rapid"

	_ "github.com/moepool/moepool/internal/propertyseed"
)

const (
	testLayer   = 4
	testExperts = 12
)

func testPlan(t testing.TB, epoch uint64, parts, workers int) *placement.Plan {
	t.Helper()
	m := placement.Model{Layers: []int{testLayer, testLayer + 1}, Experts: testExperts, Parts: parts, PartBytes: make([]int64, parts)}
	var all []placement.Worker
	for i := range workers {
		all = append(all, placement.Worker{ID: fmt.Sprint("w", i)})
	}
	plan, err := placement.Compute(epoch, m, all, placement.Options{})
	if err != nil {
		t.Fatal(err)
	}
	return plan
}

// testCall has rows whose codes and values name their row, with the given experts.
func testCall(quantized bool, hidden int, choices []router.Choice) *engine.ExpertCall {
	rows := len(choices)
	x := &kernels.Activations{}
	x.Reset(quantized, rows, hidden)
	for i := range x.Codes {
		x.Codes[i] = int8(i/kernels.PaddedColumns(hidden)%100 + 1)
	}
	for i := range x.Scales {
		x.Scales[i] = float32(i/kernels.Groups(hidden)) + 0.5
	}
	for i := range x.Values {
		x.Values[i] = float32(i)
	}
	return &engine.ExpertCall{Layer: testLayer, Rows: x, Choices: choices, Sum: make([]int64, rows*hidden), RowErr: make([]error, rows)}
}

func drawChoices(t *rapid.T) []router.Choice {
	choices := make([]router.Choice, rapid.IntRange(1, 20).Draw(t, "rows"))
	for row := range choices {
		experts := rapid.SliceOfNDistinct(rapid.Int32Range(0, testExperts-1), 0, 4, rapid.ID[int32]).Draw(t, "experts")
		slices.Sort(experts)
		choices[row].Experts = experts
		for i := range experts {
			choices[row].Weights = append(choices[row].Weights, float32(row)+float32(i)/8)
		}
	}
	return choices
}

// TestSplit: every (row, expert part) goes to its owner exactly once, with the row's own activations and the weight; workers without
// work and rows without work are left out.
func TestSplit(t *testing.T) {
	t.Parallel()
	var s splitter // reused by all checks
	rapid.Check(t, func(t *rapid.T) {
		parts, workers, hidden := rapid.IntRange(1, 3).Draw(t, "parts"), rapid.IntRange(1, 5).Draw(t, "workers"), rapid.IntRange(1, 130).Draw(t, "hidden")
		plan, err := placement.Compute(1, placement.Model{Layers: []int{testLayer}, Experts: testExperts, Parts: parts, PartBytes: make([]int64, parts)},
			[]placement.Worker{{ID: "w0"}, {ID: "w1"}, {ID: "w2"}, {ID: "w3"}, {ID: "w4"}}[:workers], placement.Options{})
		if err != nil {
			t.Fatal(err)
		}
		o, err := newOwners(plan)
		if err != nil {
			t.Fatal(err)
		}
		c := testCall(rapid.Bool().Draw(t, "quantized"), hidden, drawChoices(t))
		broken := rapid.IntRange(-1, len(c.Choices)-1).Draw(t, "broken row")
		if broken >= 0 {
			c.RowErr[broken] = errors.New("not finite")
		}
		if err := s.split(o, parts, c); err != nil {
			t.Fatal(err)
		}

		type item struct {
			row  int32
			part uint32
		}
		want := map[item]float32{}
		for row, choice := range c.Choices {
			for i, e := range choice.Experts {
				for part := range parts {
					if row != broken {
						want[item{int32(row), uint32(int(e)*parts + part)}] = choice.Weights[i]
					}
				}
			}
		}
		for i, n := range s.active {
			h := &s.shares[n]
			w := &h.work
			if i > 0 && s.active[i-1] >= n || len(h.rows) == 0 {
				t.Fatalf("active %v, worker %d has %d rows", s.active, n, len(h.rows))
			}
			if w.Layer != testLayer || w.Rows != len(h.rows) || w.Hidden != hidden || w.Quantized != c.Rows.Quantized || len(w.Offsets) != w.Rows+1 {
				t.Fatalf("%+v", w)
			}
			distinct := map[uint32]bool{}
			for k, row := range h.rows {
				expectRow(t, c.Rows, int(row), &kernels.Activations{Rows: w.Rows, Columns: hidden, Quantized: w.Quantized, Values: w.Values, Codes: w.Codes, Scales: w.Scales}, k)
				from, to := w.Offsets[k], w.Offsets[k+1]
				if from == to || !slices.IsSorted(w.Parts[from:to]) {
					t.Fatalf("worker %d row %d: parts %v", n, row, w.Parts[from:to])
				}
				for j := from; j < to; j++ {
					key := item{row, w.Parts[j]}
					weight, ok := want[key]
					if !ok || weight != w.Weights[j] || plan.Owners[testLayer][w.Parts[j]][0] != o.workers[n] {
						t.Fatalf("worker %d: %+v with weight %g", n, key, w.Weights[j])
					}
					delete(want, key)
					distinct[w.Parts[j]] = true
				}
			}
			if len(distinct) != len(h.distinct) || !slices.IsSorted(h.distinct) {
				t.Fatalf("distinct %v", h.distinct)
			}
		}
		if len(want) != 0 {
			t.Fatalf("nobody computes %v", want)
		}
	})
}

func expectRow(t *rapid.T, a *kernels.Activations, row int, b *kernels.Activations, k int) {
	take := func(x *kernels.Activations, r int) (v []float32, c []int8, s []float32) {
		if x.Quantized {
			p, g := kernels.PaddedColumns(x.Columns), kernels.Groups(x.Columns)
			return nil, x.Codes[r*p : (r+1)*p], x.Scales[r*g : (r+1)*g]
		}
		return x.Values[r*x.Columns : (r+1)*x.Columns], nil, nil
	}
	v1, c1, s1 := take(a, row)
	v2, c2, s2 := take(b, k)
	if !slices.Equal(v1, v2) || !slices.Equal(c1, c2) || !slices.Equal(s1, s2) {
		t.Fatalf("row %d was not sent as it is", row)
	}
}

// TestSplitWholeRows: when a worker needs all rows, they are sent from the call's own memory.
func TestSplitWholeRows(t *testing.T) {
	t.Parallel()
	o, err := newOwners(testPlan(t, 1, 1, 1))
	if err != nil {
		t.Fatal(err)
	}
	c := testCall(true, 8, []router.Choice{{Experts: []int32{0}, Weights: []float32{1}}, {Experts: []int32{3}, Weights: []float32{1}}})
	var s splitter
	if err := s.split(o, 1, c); err != nil {
		t.Fatal(err)
	}
	if &s.shares[0].work.Codes[0] != &c.Rows.Codes[0] {
		t.Fatal("rows were copied")
	}
}

func TestSplitErrors(t *testing.T) {
	t.Parallel()
	o, err := newOwners(testPlan(t, 1, 2, 2))
	if err != nil {
		t.Fatal(err)
	}
	var s splitter
	c := testCall(true, 8, []router.Choice{{Experts: []int32{testExperts}, Weights: []float32{1}}})
	if err := s.split(o, 2, c); err == nil {
		t.Fatal("an expert that doesn't exist was taken")
	}
	c.Choices[0].Experts[0] = -1
	if err := s.split(o, 2, c); err == nil {
		t.Fatal("a negative expert was taken")
	}
	c.Choices[0].Experts[0], c.Layer = 0, 99
	if err := s.split(o, 2, c); err == nil {
		t.Fatal("a layer without experts was taken")
	}
	if _, err := newOwners(&placement.Plan{Owned: map[string]map[int][]uint32{"a": nil}, Owners: map[int][][]string{0: {{"b"}}}}); err == nil {
		t.Fatal("a plan whose owner owns nothing was taken")
	}
}

// TestSplitAllocates: in the steady state splitting costs no memory.
func TestSplitAllocates(t *testing.T) {
	o, err := newOwners(testPlan(t, 1, 2, 2))
	if err != nil {
		t.Fatal(err)
	}
	c := testCall(true, 64, []router.Choice{{Experts: []int32{0, 1, 5}, Weights: []float32{1, 2, 3}}, {Experts: []int32{2}, Weights: []float32{1}}})
	var s splitter
	if n := testing.AllocsPerRun(100, func() {
		if err := s.split(o, 2, c); err != nil {
			t.Fatal(err)
		}
	}); n != 0 {
		t.Fatalf("%g allocations", n)
	}
	if d := cmp.Diff([]int{0, 1}, s.active); d != "" {
		t.Fatal(d)
	}
}
