package division

import (
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	_ "github.com/moepool/moepool/internal/propertyseed"
)

func itemsOf(t *rapid.T, workers int) []Item {
	items := make([]Item, rapid.IntRange(0, 30).Draw(t, "items"))
	for i := range items {
		items[i].Rows = rapid.IntRange(1, 100).Draw(t, "rows")
		items[i].Owners = rapid.SliceOfNDistinct(rapid.Int32Range(0, int32(workers-1)), 1, min(workers, 4), rapid.ID[int32]).Draw(t, "owners")
	}
	return items
}

// loads is what the shares make each worker do.
func loads(workers int, items []Item) []int {
	load := make([]int, workers)
	for _, it := range items {
		for i, rows := range it.Shares {
			if rows > 0 {
				load[it.Owners[i]] += FirstRow - 1 + rows
			}
		}
	}
	return load
}

func TestDivide(t *testing.T) {
	t.Parallel()
	var d Divider // one for all: what it keeps doesn't matter
	rapid.Check(t, func(t *rapid.T) {
		workers := rapid.IntRange(1, 8).Draw(t, "workers")
		items := itemsOf(t, workers)
		d.Divide(workers, items)
		for i, it := range items {
			sum := 0
			for _, rows := range it.Shares {
				if sum += rows; rows < 0 {
					t.Fatalf("item %d: %v", i, it)
				}
			}
			if sum != it.Rows || len(it.Shares) != len(it.Owners) {
				t.Fatalf("item %d: %v", i, it)
			}
		}
		load := loads(workers, items)
		for w, n := range load {
			if d.Load(w) != n {
				t.Fatalf("worker %d has %d to do, Load says %d", w, n, d.Load(w))
			}
		}
		// Never worse than every item whole at its first owner.
		whole := slices.Clone(items)
		for i := range whole {
			whole[i].Shares = make([]int, len(whole[i].Owners))
			whole[i].Shares[0] = whole[i].Rows
		}
		if workers > 0 && len(items) > 0 && slices.Max(load) > max(slices.Max(loads(workers, whole)), 0) {
			t.Fatalf("%v, with everything at its first owner %v", load, loads(workers, whole))
		}
		again := slices.Clone(items)
		for i := range again {
			again[i].Shares = nil
		}
		new(Divider).Divide(workers, again)
		if diff := cmp.Diff(items, again); diff != "" {
			t.Fatal(diff)
		}
	})
}

func TestDivideExamples(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		items []Item
		want  [][]int
	}{
		"few rows stay together": {
			[]Item{{Rows: 4, Owners: []int32{0, 1}}}, [][]int{{4, 0}},
		},
		"many are divided": {
			[]Item{{Rows: 100, Owners: []int32{0, 1}}}, [][]int{{50, 50}},
		},
		"the idle owner": {
			[]Item{{Rows: 1, Owners: []int32{0}}, {Rows: 1, Owners: []int32{0, 1}}}, [][]int{{1}, {0, 1}},
		},
		"those with many rows first": {
			[]Item{{Rows: 1, Owners: []int32{0, 1}}, {Rows: 20, Owners: []int32{0, 1}}, {Rows: 20, Owners: []int32{0}}}, [][]int{{1, 0}, {0, 20}, {20}},
		},
		"a chain": {
			// Of equals the first is taken: the first item takes worker 0. The second can't go elsewhere, and the third finds both its owners busy; so it
			// takes worker 0 and the first one leaves it.
			[]Item{{Rows: 9, Owners: []int32{0, 2}}, {Rows: 8, Owners: []int32{1}}, {Rows: 7, Owners: []int32{0, 1}}}, [][]int{{0, 9}, {8}, {7, 0}},
		},
	} {
		new(Divider).Divide(3, c.items)
		for i, want := range c.want {
			if !slices.Equal(c.items[i].Shares, want) {
				t.Errorf("%s: item %d is divided into %v, want %v", name, i, c.items[i].Shares, want)
			}
		}
	}
}

func BenchmarkDivide(b *testing.B) {
	for _, rows := range []int{1, 64} {
		items := make([]Item, 128)
		for i := range items {
			items[i] = Item{Rows: 1 + (i*37)%rows, Owners: []int32{int32(i % 16), int32((i*7 + 3) % 16)}}
		}
		if rows == 1 {
			items = items[:8]
		}
		b.Run("rows="+map[int]string{1: "1", 64: "64"}[rows], func(b *testing.B) {
			var d Divider
			b.ReportAllocs()
			for b.Loop() {
				d.Divide(16, items)
			}
		})
	}
}
