package dispatch

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"testing"
	"time"

	"github.com/moepool/moepool/coordinator/engine"
	"github.com/moepool/moepool/coordinator/placement"
	"github.com/moepool/moepool/coordinator/router"
	"github.com/moepool/moepool/kernels"
	"github.com/moepool/moepool/transport"
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

// testOwners gives each expert part of the test layers copies owners, one after the other: with 1 as placement does.
func testOwners(t failer, epoch uint64, parts, workers, copies int) *placement.Plan {
	t.Helper()
	plan := &placement.Plan{Epoch: epoch, Owned: map[string]map[int][]uint32{}, Owners: map[int][][]string{}}
	for w := range workers {
		plan.Owned[fmt.Sprint("w", w)] = map[int][]uint32{}
	}
	for layer := testLayer; layer <= testLayer+1; layer++ {
		for item := range testExperts * parts {
			var ids []string
			for k := range min(copies, workers) {
				id := fmt.Sprint("w", (item+k)%workers)
				ids = append(ids, id)
				plan.Owned[id][layer] = append(plan.Owned[id][layer], uint32(item))
			}
			plan.Owners[layer] = append(plan.Owners[layer], ids)
		}
	}
	return plan
}

// testView is a view of a plan; lost and avoided list numbers of workers.
func testView(t failer, r *roster, plan *placement.Plan, lost, avoid []int) *view {
	t.Helper()
	for _, id := range slices.Sorted(maps.Keys(plan.Owned)) {
		r.number(id)
	}
	o, err := newOwners(r, plan)
	if err != nil {
		t.Fatal(err)
	}
	v := &view{owners: o, term: 7, why: make([]error, len(r.ids)), avoid: make([]bool, len(r.ids)), plain: len(lost)+len(avoid) == 0}
	for _, n := range lost {
		v.why[n] = errors.New("lost")
	}
	for _, n := range avoid {
		v.avoid[n] = true
	}
	return v
}

// newTestJob is a job without hedges, with the limits of the tests.
func newTestJob(parts int) *job {
	return &job{splitter: splitter{parts: parts}, roster: &roster{}, delay: func(int32, int) time.Duration { return 0 },
		limits: limits{silence: testSilence, total: testTotal, missing: testMissing, grace: goneGrace}}
}

const (
	testSilence = 5 * time.Second
	testTotal   = 600 * time.Second
	testMissing = 30 * time.Second
)

// item is what is counted.
type item struct {
	row  int32
	part uint32
}

// itemsOf lists what a call needs, with weights.
func itemsOf(c *engine.ExpertCall, parts int) map[item]float32 {
	want := map[item]float32{}
	for row, choice := range c.Choices {
		for i, e := range choice.Experts {
			for part := range parts {
				if c.RowErr[row] == nil {
					want[item{int32(row), uint32(int(e)*parts + part)}] = choice.Weights[i]
				}
			}
		}
	}
	return want
}

// expectAttempt checks that an attempt's work is well formed, says what its rows are, and holds only wanted items, whose weights it has; it
// gives the items.
func expectAttempt(t *rapid.T, c *engine.ExpertCall, a *attempt, want map[item]float32) (items []item) {
	w := &a.work
	if w.Layer != testLayer || w.Rows != len(a.rows) || w.Rows == 0 || w.Hidden != c.Rows.Columns || w.Quantized != c.Rows.Quantized ||
		len(w.Offsets) != w.Rows+1 || !slices.IsSorted(a.rows) {
		t.Fatalf("%+v", w)
	}
	distinct := map[uint32]bool{}
	for k, row := range a.rows {
		expectRow(t, c.Rows, int(row), &kernels.Activations{Rows: w.Rows, Columns: w.Hidden, Quantized: w.Quantized, Values: w.Values, Codes: w.Codes,
			Scales: w.Scales}, k)
		from, to := w.Offsets[k], w.Offsets[k+1]
		if from == to || !slices.IsSorted(w.Parts[from:to]) {
			t.Fatalf("worker %d row %d: parts %v", a.worker, row, w.Parts[from:to])
		}
		for i := from; i < to; i++ {
			key := item{row, w.Parts[i]}
			if weight, ok := want[key]; !ok || weight != w.Weights[i] {
				t.Fatalf("worker %d: %+v with weight %g", a.worker, key, w.Weights[i])
			}
			items = append(items, key)
			distinct[w.Parts[i]] = true
		}
	}
	if len(distinct) != len(a.distinct) || !slices.IsSorted(a.distinct) {
		t.Fatalf("distinct %v", a.distinct)
	}
	return items
}

// TestSplit: every item goes exactly once to an owner that can be used, to one to be avoided only if there is no other, with the row's own
// activations and the weight; items whose owners are all lost wait, and workers and rows without work are left out.
func TestSplit(t *testing.T) {
	t.Parallel()
	j := map[int]*job{1: newTestJob(1), 2: newTestJob(2), 3: newTestJob(3)} // reused by all checks
	rapid.Check(t, func(t *rapid.T) {
		parts, workers, hidden := rapid.IntRange(1, 3).Draw(t, "parts"), rapid.IntRange(1, 5).Draw(t, "workers"), rapid.IntRange(1, 130).Draw(t, "hidden")
		plan := testOwners(t, 1, parts, workers, rapid.IntRange(1, 3).Draw(t, "copies"))
		some := rapid.SliceOfNDistinct(rapid.IntRange(0, workers-1), 0, workers, rapid.ID[int])
		j := j[parts]
		v := testView(t, j.roster, plan, some.Draw(t, "lost"), some.Draw(t, "avoid"))
		c := testCall(rapid.Bool().Draw(t, "quantized"), hidden, drawChoices(t))
		if broken := rapid.IntRange(-1, len(c.Choices)-1).Draw(t, "broken row"); broken >= 0 {
			c.RowErr[broken] = errors.New("not finite")
		}
		if err := j.start(c, v); err != nil {
			t.Fatal(err)
		}
		want := itemsOf(c, parts)
		for _, a := range j.attempts {
			if a.state == orphan {
				for k, row := range a.rows {
					for _, part := range a.work.Parts[a.work.Offsets[k]:a.work.Offsets[k+1]] {
						for _, owner := range v.owners.layers[testLayer].of(part) {
							if v.why[owner] == nil {
								t.Fatalf("part %d waits, though worker %d has it", part, owner)
							}
						}
						delete(want, item{row, part})
					}
				}
				continue
			}
			for _, it := range expectAttempt(t, c, a, want) {
				owners := v.owners.layers[testLayer].of(it.part)
				if !slices.Contains(owners, a.worker) || v.why[a.worker] != nil {
					t.Fatalf("part %d goes to worker %d", it.part, a.worker)
				}
				for _, owner := range owners {
					if v.avoid[a.worker] && !v.avoid[owner] && v.why[owner] == nil {
						t.Fatalf("part %d goes to worker %d, which is to be avoided, not to %d", it.part, a.worker, owner)
					}
				}
				delete(want, it)
			}
		}
		if len(want) != 0 {
			t.Fatalf("nobody computes %v", want)
		}
	})
}

// failer is what tests and property checks have in common.
type failer interface {
	Helper()
	Fatal(args ...any)
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

// TestSplitBalances: of an expert's owners the one with less to do gets it.
func TestSplitBalances(t *testing.T) {
	t.Parallel()
	plan := &placement.Plan{Epoch: 1, Owned: map[string]map[int][]uint32{"w0": {}, "w1": {}}, Owners: map[int][][]string{testLayer: {
		{"w0"}, {"w0"}, {"w0", "w1"}, {"w0", "w1"}, {"w0", "w1"}, {"w1", "w0"},
	}}}
	j := newTestJob(1)
	v := testView(t, j.roster, plan, nil, nil)
	experts := []int32{0, 1, 2, 3, 4, 5}
	if err := j.start(testCall(true, 8, []router.Choice{{Experts: experts, Weights: make([]float32, 6)}}), v); err != nil {
		t.Fatal(err)
	}
	for _, a := range j.attempts {
		if len(a.distinct) != 3 {
			t.Errorf("worker %d computes %v", a.worker, a.distinct)
		}
	}
	// Many rows of one expert are worth reading it twice.
	rows := make([]router.Choice, 64)
	for i := range rows {
		rows[i] = router.Choice{Experts: experts[2:3], Weights: []float32{1}}
	}
	if err := j.start(testCall(true, 8, rows), v); err != nil {
		t.Fatal(err)
	}
	if len(j.attempts) != 2 || len(j.attempts[0].rows) != 32 {
		t.Errorf("%d shares, the first one of %d rows", len(j.attempts), len(j.attempts[0].rows))
	}
}

// TestSplitWholeRows: when a worker needs all rows, they are sent from the call's own memory.
func TestSplitWholeRows(t *testing.T) {
	t.Parallel()
	c := testCall(true, 8, []router.Choice{{Experts: []int32{0}, Weights: []float32{1}}, {Experts: []int32{3}, Weights: []float32{1}}})
	j := newTestJob(1)
	if err := j.start(c, testView(t, j.roster, testOwners(t, 1, 1, 1, 1), nil, nil)); err != nil {
		t.Fatal(err)
	}
	if &j.attempts[0].work.Codes[0] != &c.Rows.Codes[0] {
		t.Fatal("rows were copied")
	}
}

func TestSplitErrors(t *testing.T) {
	t.Parallel()
	j := newTestJob(2)
	v := testView(t, j.roster, testOwners(t, 1, 2, 2, 1), nil, nil)
	c := testCall(true, 8, []router.Choice{{Experts: []int32{testExperts}, Weights: []float32{1}}})
	if err := j.start(c, v); err == nil {
		t.Fatal("an expert that doesn't exist was taken")
	}
	c.Choices[0].Experts[0] = -1
	if err := j.start(c, v); err == nil {
		t.Fatal("a negative expert was taken")
	}
	c.Choices[0].Experts[0], c.Layer = 0, 99
	if err := j.start(c, v); err == nil {
		t.Fatal("a layer without experts was taken")
	}
	for _, owners := range [][]string{{"b"}, {}} {
		if _, err := newOwners(&roster{}, &placement.Plan{Owned: map[string]map[int][]uint32{"a": nil}, Owners: map[int][][]string{0: {owners}}}); err == nil {
			t.Fatalf("a plan was taken whose owners are %q", owners)
		}
	}
}

// TestSplitAllocates: in the steady state a call's decisions cost no memory, with replicas, too.
func TestSplitAllocates(t *testing.T) {
	for _, copies := range []int{1, 2} {
		j := newTestJob(2)
		v := testView(t, j.roster, testOwners(t, 1, 2, 2, copies), nil, nil)
		c := testCall(true, 64, []router.Choice{{Experts: []int32{0, 1, 5}, Weights: []float32{1, 2, 3}}, {Experts: []int32{2}, Weights: []float32{1}}})
		result := &transport.Result{}
		if n := testing.AllocsPerRun(100, func() {
			if err := j.start(c, v); err != nil {
				t.Fatal(err)
			}
			for _, a := range j.attempts {
				j.next()
				j.answered(a, result)
			}
			if j.outcome != done {
				t.Fatal("it is not done")
			}
		}); n != 0 {
			t.Fatalf("%g allocations", n)
		}
	}
}
