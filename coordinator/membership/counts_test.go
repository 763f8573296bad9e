package membership

import (
	"testing"

	"github.com/moepool/moepool/coordinator/placement"
	"pgregory.net/rapid"
)

// TestRouting: counts stay within their window, keep their proportions under steady routing, and follow when the routing changes.
func TestRouting(t *testing.T) {
	t.Parallel()
	m := placement.Model{Layers: []int{3}, Experts: 4, Parts: 2}
	rapid.Check(t, func(t *rapid.T) {
		r := newRouting(m)
		steady := rapid.SliceOfN(rapid.Uint32Range(1, 300), 4, 4).Draw(t, "rows of a step")
		for range rapid.IntRange(1, 400).Draw(t, "steps") {
			r.observe(3, steady)
		}
		r.observe(4, steady)
		counts := r.snapshot()
		if len(counts) != 1 {
			t.Fatalf("layers %v", counts)
		}
		total := 0.0
		for expert, n := range counts[3] {
			total += n
			if want := n * float64(steady[0]); want != 0 && abs(counts[3][0]*float64(steady[expert])-want) > 1e-9*want {
				t.Fatalf("%v for steps of %v", counts[3], steady)
			}
		}
		if total >= windowRows*4 {
			t.Fatalf("%v rows are remembered", total)
		}
		for range 200 { // ten windows of another routing
			r.observe(3, []uint32{0, 0, windowRows / 5, 0})
		}
		counts = r.snapshot()
		if c := counts[3]; c[2] < 100*(c[0]+c[1]+c[3]) {
			t.Fatalf("the old routing is not forgotten: %v", c)
		}
	})
	if newRouting(m).snapshot() != nil {
		t.Fatal("counts of nothing")
	}
}

func abs(x float64) float64 { return max(x, -x) }
