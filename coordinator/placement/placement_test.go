package placement

import (
	"errors"
	"fmt"
	"math/rand"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	_ "github.com/moepool/moepool/internal/propertyseed"
)

func modelOf(t *rapid.T) Model {
	m := Model{Experts: rapid.IntRange(1, 70).Draw(t, "experts"), Parts: rapid.IntRange(1, 5).Draw(t, "parts")}
	m.Layers = rapid.SliceOfNDistinct(rapid.IntRange(0, 60), 1, 6, rapid.ID[int]).Draw(t, "layers")
	m.PartBytes = rapid.SliceOfN(rapid.Int64Range(1, 1<<30), m.Parts, m.Parts).Draw(t, "bytes")
	return m
}

func workersOf(t *rapid.T) []Worker {
	ids := rapid.SliceOfNDistinct(rapid.StringMatching(`[a-z0-9_-]{1,8}`), 1, 12, rapid.ID[string]).Draw(t, "ids")
	var workers []Worker
	for i, id := range ids {
		workers = append(workers, Worker{ID: id, Host: fmt.Sprint("h", i%3), Node: i / 3})
	}
	return workers
}

// TestOneOwner: every expert part has exactly one owner, the two directions of the plan agree, and a layer's parts are spread
// evenly within one.
func TestOneOwner(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		m, workers := modelOf(t), workersOf(t)
		plan, err := Compute(7, m, workers, Options{})
		if err != nil {
			t.Fatal(err)
		}
		if plan.Epoch != 7 || len(plan.Owned) != len(workers) || len(plan.Owners) != len(m.Layers) {
			t.Fatalf("epoch %d, %d workers, %d layers", plan.Epoch, len(plan.Owned), len(plan.Owners))
		}
		total := int64(0)
		for _, layer := range m.Layers {
			seen := make([]int, m.Experts*m.Parts)
			low, high := m.Experts*m.Parts, 0
			for _, w := range workers {
				owned := plan.Owned[w.ID][layer]
				if !slices.IsSorted(owned) {
					t.Fatalf("layer %d worker %s: %v", layer, w.ID, owned)
				}
				for _, item := range owned {
					seen[item]++
					if plan.Owners[layer][item][0] != w.ID {
						t.Fatalf("layer %d item %d: owned by %s, owner says %s", layer, item, w.ID, plan.Owners[layer][item][0])
					}
				}
				low, high = min(low, len(owned)), max(high, len(owned))
			}
			for item, n := range seen {
				if n != 1 {
					t.Fatalf("layer %d item %d has %d owners", layer, item, n)
				}
			}
			if high-low > 1 {
				t.Fatalf("layer %d: between %d and %d parts", layer, low, high)
			}
		}
		for _, w := range workers {
			total += plan.Bytes(m, w.ID)
		}
		want := int64(0)
		for _, b := range m.PartBytes {
			want += b * int64(m.Experts) * int64(len(m.Layers))
		}
		if total != want {
			t.Fatalf("%d bytes placed of %d", total, want)
		}
	})
}

func TestOrderOfWorkersDoesNotMatter(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		m, workers := modelOf(t), workersOf(t)
		shuffled := slices.Clone(workers)
		rand.New(rand.NewSource(rapid.Int64().Draw(t, "seed"))).Shuffle(len(shuffled), func(i, j int) {
			shuffled[i], shuffled[j] = shuffled[j], shuffled[i]
		})
		before := slices.Clone(shuffled)
		a, errA := Compute(1, m, workers, Options{})
		b, errB := Compute(1, m, shuffled, Options{})
		if errA != nil || errB != nil {
			t.Fatal(errA, errB)
		}
		if d := cmp.Diff(a, b); d != "" {
			t.Fatal(d)
		}
		if d := cmp.Diff(before, shuffled); d != "" {
			t.Fatalf("the input was changed: %s", d)
		}
	})
}

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
	// a owns experts 0 and 2 of both layers: 400 bytes; b 200.
	if _, err := Compute(1, m, []Worker{{ID: "a", Capacity: 400}, {ID: "b", Capacity: 200}}, Options{}); err != nil {
		t.Fatal(err)
	}
	_, err := Compute(1, m, []Worker{{ID: "a", Capacity: 399}, {ID: "b", Capacity: 1000}}, Options{})
	var short *CapacityError
	if !errors.As(err, &short) {
		t.Fatal(err)
	}
	if d := cmp.Diff(&CapacityError{"a", 400, 399, 600, 1399, 2}, short); d != "" {
		t.Fatal(d)
	}
	for _, number := range []string{"400", "399", "600", "1399"} {
		if !strings.Contains(err.Error(), number) {
			t.Fatalf("%q lacks %s", err, number)
		}
	}
}

func TestRefused(t *testing.T) {
	t.Parallel()
	good := Model{Layers: []int{0}, Experts: 2, Parts: 1, PartBytes: []int64{1}}
	for name, c := range map[string]struct {
		change  func(*Model)
		workers []Worker
	}{
		"no workers":      {func(*Model) {}, nil},
		"same id":         {func(*Model) {}, []Worker{{ID: "a"}, {ID: "a"}}},
		"no id":           {func(*Model) {}, []Worker{{}}},
		"no experts":      {func(m *Model) { m.Experts = 0 }, []Worker{{ID: "a"}}},
		"no parts":        {func(m *Model) { m.Parts = 0 }, []Worker{{ID: "a"}}},
		"sizes missing":   {func(m *Model) { m.PartBytes = nil }, []Worker{{ID: "a"}}},
		"layer twice":     {func(m *Model) { m.Layers = []int{1, 1} }, []Worker{{ID: "a"}}},
		"negative number": {func(m *Model) { m.Experts = -1 }, []Worker{{ID: "a"}}},
	} {
		m := good
		c.change(&m)
		if plan, err := Compute(1, m, c.workers, Options{}); err == nil || plan != nil {
			t.Errorf("%s: plan %v, error %v", name, plan, err)
		}
	}
}
