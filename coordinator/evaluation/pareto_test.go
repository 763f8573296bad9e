package evaluation

import (
	"math"
	"testing"

	"pgregory.net/rapid"

	_ "github.com/moepool/moepool/internal/propertyseed"
)

// TestFront compares with the definition, point by point. Few values make equal points common.
func TestFront(t *testing.T) {
	t.Parallel()
	value := rapid.Custom(func(t *rapid.T) float64 {
		if v := rapid.IntRange(-1, 6).Draw(t, "value"); v >= 0 {
			return float64(v)
		}
		return math.NaN()
	})
	rapid.Check(t, func(t *rapid.T) {
		points := rapid.SliceOfN(rapid.Custom(func(t *rapid.T) Point {
			return Point{Speed: value.Draw(t, "speed"), Loss: value.Draw(t, "loss")}
		}), 0, 12).Draw(t, "points")
		front := Front(points)
		for i, p := range points {
			want := p.Speed == p.Speed && p.Loss == p.Loss
			for _, other := range points {
				if other.Speed >= p.Speed && other.Loss <= p.Loss && (other.Speed > p.Speed || other.Loss < p.Loss) {
					want = false
				}
			}
			if front[i] != want {
				t.Fatalf("point %d of %v: on the front: %v, want %v", i, points, front[i], want)
			}
		}
	})
}
