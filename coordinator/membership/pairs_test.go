package membership

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/moepool/moepool/coordinator/placement"
	"github.com/moepool/moepool/coordinator/router"
)

// TestPairs: pairs are counted, fade with the counts, and are what a placement takes.
func TestPairs(t *testing.T) {
	t.Parallel()
	m := placement.Model{Layers: []int{3}, Experts: 4, Parts: 1, PartBytes: []int64{1}, TopK: 2}
	r := newRouting(m)
	if counts, pairs := r.observed(); counts != nil || pairs != nil {
		t.Fatal("counts of nothing")
	}
	choices := []router.Choice{{Experts: []int32{0, 2}}, {Experts: []int32{0, 3}}, {Experts: []int32{0, 2}}, {}, {Experts: []int32{-1, 1, 9}}}
	r.observePairs(3, choices)
	r.observePairs(4, choices)
	if counts, _ := r.observed(); counts != nil {
		t.Fatal("pairs without counts")
	}
	r.observe(3, []uint32{3, 1, 2, 1})
	counts, pairs := r.observed()
	if d := cmp.Diff(map[int][]float64{3: {3, 1, 2, 1}}, counts); d != "" {
		t.Fatal(d)
	}
	want := []float64{
		3, 0, 2, 1,
		0, 1, 0, 0,
		2, 0, 2, 0,
		1, 0, 0, 1,
	}
	if d := cmp.Diff(map[int][]float64{3: want}, pairs); d != "" {
		t.Fatal(d)
	}
	// Many windows of steps later the proportions are the same, and a plan can be made at any time.
	for range 4000 {
		r.observePairs(3, choices)
		if counts, pairs = r.observed(); pairs[3][2] > counts[3][2] {
			t.Fatal("a pair is more frequent than one of its experts")
		}
		r.observe(3, []uint32{3, 1, 2, 1})
	}
	counts, pairs = r.observed()
	if n := counts[3][2]; pairs[3][2] < 0.99*n || pairs[3][3] < 0.49*n || pairs[3][3] > 0.51*n {
		t.Fatalf("counts %v, pairs %v", counts[3], pairs[3])
	}
	if _, err := placement.Compute(1, m, []placement.Worker{{ID: "a"}, {ID: "b"}}, placement.Options{Counts: counts, Pairs: pairs}); err != nil {
		t.Fatal(err)
	}
}
