package evaluation

import (
	"cmp"
	"math"
	"slices"
)

// Point is a trade-off of speed against a loss of quality.
type Point struct {
	Speed float64 // more is better
	Loss  float64 // less is better
}

// Front says which points are on the Pareto front: those that no other point beats, by being at least as good in both and better in one.
// Equal points are on it together; a point with a NaN is not, and beats nothing.
func Front(points []Point) []bool {
	order := make([]int, 0, len(points))
	for i, p := range points {
		if !math.IsNaN(p.Speed) && !math.IsNaN(p.Loss) {
			order = append(order, i)
		}
	}
	slices.SortFunc(order, func(a, b int) int {
		return cmp.Or(cmp.Compare(points[b].Speed, points[a].Speed), cmp.Compare(points[a].Loss, points[b].Loss))
	})
	on := make([]bool, len(points))
	var last Point
	for n, i := range order {
		if n == 0 || points[i].Loss < last.Loss || points[i] == last {
			on[i], last = true, points[i]
		}
	}
	return on
}
