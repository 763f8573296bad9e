package placement

import (
	"cmp"
	"fmt"
	"slices"
	"testing"

	godiff "github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"
)

// TestNothingMovesWithoutReason: the same workers, memory and counts give the same plan.
func TestNothingMovesWithoutReason(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		m := modelOf(t)
		workers, o := workersOf(t, m, 1), optionsOf(t, m)
		plan, err := Compute(1, m, workers, o)
		if err != nil {
			t.Fatal(err)
		}
		o.Previous = plan
		next, err := Compute(2, m, workers, o)
		if err != nil {
			t.Fatal(err)
		}
		if parts, bytes := next.Moved(m, plan); parts != 0 || bytes != 0 || !next.Same(plan) {
			t.Fatalf("%d parts of %d bytes moved: %s", parts, bytes, godiff.Diff(plan.Owners, next.Owners))
		}
	})
}

// TestPromotion: when workers leave, owners that are left keep everything in their order, so that replicas become primaries; with a large tolerance
// nothing moves but what nobody owns any more.
func TestPromotion(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		m := modelOf(t)
		workers, o := workersOf(t, m, 2), optionsOf(t, m)
		for i := range workers {
			workers[i].Capacity = 0
		}
		before, err := Compute(1, m, workers, o)
		if err != nil {
			t.Fatal(err)
		}
		leaving := rapid.IntRange(1, len(workers)-1).Draw(t, "leaving")
		left := map[string]bool{}
		for _, w := range workers[:leaving] {
			left[w.ID] = true
		}
		// What remains may not be copied again: only primaries are looked at.
		o.Previous, o.Tolerance, o.Replicas = before, 1e9, min(o.Replicas, len(workers)-leaving)
		after, err := Compute(2, m, workers[leaving:], o)
		if err != nil {
			t.Fatal(err)
		}
		lost := 0
		for _, layer := range m.Layers {
			for item, ids := range before.Owners[layer] {
				rest := slices.DeleteFunc(slices.Clone(ids), func(id string) bool { return left[id] })
				now := after.Owners[layer][item]
				if len(rest) == 0 {
					lost++
				} else if now[0] != rest[0] {
					t.Fatalf("part %d had owners %v, has %v", item, ids, now)
				}
				if n := min(len(rest), len(now)); !slices.Equal(now[:n], rest[:n]) {
					t.Fatalf("part %d had owners %v, has %v", item, ids, now)
				}
			}
		}
		if moved, _ := after.Moved(m, before); o.Replicas < 2 && moved != lost {
			t.Fatalf("%d parts lost their owner, %d moved", lost, moved)
		}
	})
}

// TestJoin: only the new worker gets anything, and no more than its even share.
func TestJoin(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		n := rapid.IntRange(1, 9).Draw(t, "workers")
		m := Model{Layers: []int{1, 2}, Experts: rapid.IntRange(1, 130).Draw(t, "experts"), Parts: 1, PartBytes: []int64{1 << 20}}
		var workers []Worker
		for i := range n {
			workers = append(workers, Worker{ID: fmt.Sprint("w", i), Host: fmt.Sprint("h", i)})
		}
		before, err := Compute(1, m, workers, Options{})
		if err != nil {
			t.Fatal(err)
		}
		after, err := Compute(2, m, append(workers, Worker{ID: "new", Host: "new"}), Options{Previous: before})
		if err != nil {
			t.Fatal(err)
		}
		moved, _ := after.Moved(m, before)
		got := 0
		for _, layer := range m.Layers {
			k := len(after.Owned["new"][layer])
			got += k
			// Even: the others may have the tolerance more than a fresh placement gives the fullest.
			fullest := (m.Experts + n) / (n + 1)
			if share := m.Experts / (n + 1); k > max(share, 1) {
				t.Fatalf("the new worker got %d of %d experts, %d would be even", k, m.Experts, share)
			}
			for _, w := range workers {
				if k := len(after.Owned[w.ID][layer]); float64(k) > (1+DefaultTolerance)*float64(fullest)+1e-9 && k > fullest {
					t.Fatalf("%s still has %d experts, a fresh placement gives %d", w.ID, k, fullest)
				}
			}
		}
		if moved != got {
			t.Fatalf("%d parts moved, %d of them to the new worker", moved, got)
		}
	})
}

// TestBalance: after any change a layer is as good as a fresh placement, or within the tolerance, or no single move or exchange would help.
func TestBalance(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		m := modelOf(t)
		workers, o := workersOf(t, m, 1), optionsOf(t, m)
		before, err := Compute(1, m, workers, o)
		if err != nil {
			t.Fatal(err)
		}
		workers = changed(t, 1, workers)
		for i := range workers {
			workers[i].Capacity = 0
		}
		slices.SortFunc(workers, func(a, b Worker) int { return cmp.Compare(a.ID, b.ID) })
		fresh, kept := newPlanner(m, workers, &o), newPlanner(m, workers, &o)
		if fresh.placeFresh() != nil || !kept.keep(before, fresh) {
			return
		}
		for i, l := range kept.layers {
			was := l.slowestWorker()
			if was <= (1+kept.tolerance)*fresh.layers[i].slowestWorker() {
				continue
			}
			if l.improveOnce(l.leastPenalties(targets)) {
				t.Fatalf("layer %d: %v could be %v; fresh is %v", l.number, was, l.slowestWorker(), fresh.layers[i].slowestWorker())
			}
		}
	})
}
