package placement

import (
	"errors"
	"math"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// TestPartsOverWorkers: P parts over P workers give each worker one part of every expert.
func TestPartsOverWorkers(t *testing.T) {
	t.Parallel()
	m := Model{Layers: []int{0, 3}, Experts: 5, Parts: 3, PartBytes: []int64{10, 20, 30}}
	plan, err := Compute(1, m, []Worker{{ID: "c"}, {ID: "a"}, {ID: "b"}}, Options{})
	if err != nil {
		t.Fatal(err)
	}
	for part, id := range []string{"a", "b", "c"} {
		var want []uint32
		for expert := range m.Experts {
			want = append(want, uint32(expert*m.Parts+part))
		}
		for _, layer := range m.Layers {
			if d := cmp.Diff(want, plan.Owned[id][layer]); d != "" {
				t.Fatal(d)
			}
		}
	}
}

func TestMoreWorkersThanParts(t *testing.T) {
	t.Parallel()
	plan, err := Compute(1, Model{Layers: []int{2}, Experts: 2, Parts: 1, PartBytes: []int64{1}}, []Worker{{ID: "a"}, {ID: "b"}, {ID: "c"}}, Options{})
	if err != nil {
		t.Fatal(err)
	}
	if owned, ok := plan.Owned["c"]; !ok || len(owned) != 0 {
		t.Fatalf("c owns %v", owned)
	}
}

func TestCapacity(t *testing.T) {
	t.Parallel()
	m := Model{Layers: []int{0, 1}, Experts: 3, Parts: 1, PartBytes: []int64{100}}
	// With enough memory a owns experts 0 and 2 of both layers: 400 bytes; b 200.
	if _, err := Compute(1, m, []Worker{{ID: "a", Capacity: 400}, {ID: "b", Capacity: 200}}, Options{}); err != nil {
		t.Fatal(err)
	}
	plan, err := Compute(1, m, []Worker{{ID: "a", Capacity: 399}, {ID: "b", Capacity: 300}}, Options{})
	if err != nil {
		t.Fatal(err)
	}
	if a, b := plan.Bytes(m, "a"), plan.Bytes(m, "b"); a != 300 || b != 300 {
		t.Fatalf("a owns %d bytes, b %d", a, b)
	}
	_, err = Compute(1, m, []Worker{{ID: "a", Capacity: 399}, {ID: "b", Capacity: 299}}, Options{})
	var short *CapacityError
	if !errors.As(err, &short) {
		t.Fatal(err)
	}
	if d := cmp.Diff(&CapacityError{"a", 400, 399, 600, 698, 2}, short); d != "" {
		t.Fatal(d)
	}
	for _, number := range []string{"400", "399", "600", "698"} {
		if !strings.Contains(err.Error(), number) {
			t.Fatalf("%q lacks %s", err, number)
		}
	}
}

func TestRefused(t *testing.T) {
	t.Parallel()
	good := Model{Layers: []int{0}, Experts: 2, Parts: 1, PartBytes: []int64{1}}
	a := []Worker{{ID: "a"}}
	for name, c := range map[string]struct {
		change  func(*Model)
		workers []Worker
		options Options
	}{
		"no workers":           {nil, nil, Options{}},
		"same id":              {nil, []Worker{{ID: "a"}, {ID: "a"}}, Options{}},
		"no id":                {nil, []Worker{{}}, Options{}},
		"negative capacity":    {nil, []Worker{{ID: "a", Capacity: -1}}, Options{}},
		"negative bandwidth":   {nil, []Worker{{ID: "a", Bandwidth: -1}}, Options{}},
		"no bandwidth":         {nil, []Worker{{ID: "a", Bandwidth: math.NaN()}}, Options{}},
		"no experts":           {func(m *Model) { m.Experts = 0 }, a, Options{}},
		"no parts":             {func(m *Model) { m.Parts = 0 }, a, Options{}},
		"sizes missing":        {func(m *Model) { m.PartBytes = nil }, a, Options{}},
		"negative size":        {func(m *Model) { m.PartBytes = []int64{-1} }, a, Options{}},
		"layer twice":          {func(m *Model) { m.Layers = []int{1, 1} }, a, Options{}},
		"negative number":      {func(m *Model) { m.Experts = -1 }, a, Options{}},
		"more than all":        {func(m *Model) { m.TopK = 3 }, a, Options{}},
		"counts missing":       {nil, a, Options{Counts: map[int][]float64{0: {1}}}},
		"negative count":       {nil, a, Options{Counts: map[int][]float64{0: {1, -1}}}},
		"no count":             {nil, a, Options{Counts: map[int][]float64{0: {1, math.NaN()}}}},
		"pairs missing":        {nil, a, Options{Counts: map[int][]float64{0: {1, 1}}, Pairs: map[int][]float64{0: {1, 0, 0}}}},
		"pairs alone":          {nil, a, Options{Pairs: map[int][]float64{0: {1, 0, 0, 1}}}},
		"one-sided pairs":      {nil, a, Options{Counts: map[int][]float64{0: {1, 1}}, Pairs: map[int][]float64{0: {1, 1, 0, 1}}}},
		"more pairs than rows": {nil, a, Options{Counts: map[int][]float64{0: {1, 1}}, Pairs: map[int][]float64{0: {1, 2, 2, 1}}}},
		"empty batch":          {nil, a, Options{Batches: []int{0}}},
		"huge batch":           {nil, a, Options{Batches: []int{MaxBatch + 1}}},
		"negative replicas":    {nil, a, Options{Replicas: -1}},
		"negative tolerance":   {nil, a, Options{Tolerance: -1}},
		"another model's plan": {nil, a, Options{Previous: &Plan{Epoch: 1}}},
	} {
		m := good
		if c.change != nil {
			c.change(&m)
		}
		if plan, err := Compute(1, m, c.workers, c.options); err == nil || plan != nil {
			t.Errorf("%s: plan %v, error %v", name, plan, err)
		}
	}
}

// TestPairs: experts that the same rows choose are kept apart, though all are chosen equally often.
func TestPairs(t *testing.T) {
	t.Parallel()
	m := Model{Layers: []int{0}, Experts: 8, Parts: 1, PartBytes: []int64{100}, TopK: 2}
	counts, pairs := map[int][]float64{0: make([]float64, 8)}, map[int][]float64{0: make([]float64, 64)}
	for e := range 8 {
		counts[0][e] = 1000
		pairs[0][e*8+e], pairs[0][e*8+(e+4)%8] = 1000, 1000 // e and e + 4 come together
	}
	workers := []Worker{{ID: "a", Host: "a"}, {ID: "b", Host: "b"}, {ID: "c", Host: "c"}, {ID: "d", Host: "d"}}
	for _, known := range []bool{false, true} {
		o := Options{Counts: counts}
		if known {
			o.Pairs = pairs
		}
		plan, err := Compute(1, m, workers, o)
		if err != nil {
			t.Fatal(err)
		}
		for e := range 4 {
			if together := plan.Owners[0][e][0] == plan.Owners[0][e+4][0]; together == known {
				t.Errorf("pairs known: %v; experts %d and %d are together: %v", known, e, e+4, together)
			}
		}
		for _, w := range workers {
			if n := len(plan.Owned[w.ID][0]); n != 2 {
				t.Errorf("pairs known: %v; worker %s owns %d experts", known, w.ID, n)
			}
		}
	}
}
