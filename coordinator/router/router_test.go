package router

import (
	"cmp"
	"math"
	"slices"
	"testing"

	gocmp "github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	_ "github.com/moepool/moepool/internal/propertyseed"
)

var nan = float32(math.NaN())

func TestLargest(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		name          string
		probabilities []float32
		k             int
		experts       []int32
		weights       []float32
	}{
		{"ids ascend whatever the order of probabilities", []float32{0.1, 0.4, 0.2, 0.3}, 3, []int32{1, 2, 3}, []float32{0.4, 0.2, 0.3}},
		{"a tie at the edge goes to the lower id", []float32{0.25, 0.25, 0.25, 0.25}, 2, []int32{0, 1}, []float32{0.25, 0.25}},
		{"a tie behind a larger one", []float32{0.2, 0.2, 0.4, 0.2}, 2, []int32{0, 2}, []float32{0.2, 0.4}},
		{"NaN is last", []float32{nan, 0, nan, 0.5}, 2, []int32{1, 3}, []float32{0, 0.5}},
		{"NaN only where nothing else is left, lower id first", []float32{nan, nan, 0.5}, 2, []int32{0, 2}, []float32{nan, 0.5}},
		{"more than there are", []float32{0.75, 0.25}, 5, []int32{0, 1}, []float32{0.75, 0.25}},
		{"none", []float32{0.75, 0.25}, 0, []int32{}, []float32{}},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			got := Choice{Experts: []int32{9, 9, 9, 9, 9, 9}, Weights: []float32{9}} // reused slices leave nothing behind
			Largest(&got, test.probabilities, test.k)
			if d := gocmp.Diff(Choice{test.experts, test.weights}, got, equalNaN); d != "" {
				t.Error(d)
			}
		})
	}
}

var equalNaN = gocmp.Comparer(func(a, b float32) bool { return math.Float32bits(a) == math.Float32bits(b) || a != a && b != b })

// The selection equals a stable sort of all experts.
func TestLargestEqualsSort(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		// Few distinct values make many ties.
		value := rapid.SampledFrom([]float32{0, 0.125, 0.25, 0.5, nan, float32(math.Inf(1))})
		probabilities := rapid.SliceOfN(value, 1, 40).Draw(t, "probabilities")
		k := rapid.IntRange(0, 12).Draw(t, "k")

		ids := make([]int32, len(probabilities))
		for i := range ids {
			ids[i] = int32(i)
		}
		slices.SortStableFunc(ids, func(a, b int32) int {
			x, y := probabilities[a], probabilities[b]
			switch {
			case x != x && y != y:
				return 0
			case x != x:
				return 1
			case y != y:
				return -1
			}
			return cmp.Compare(y, x)
		})
		want := slices.Clone(ids[:min(k, len(ids))])
		slices.Sort(want)

		var got Choice
		Largest(&got, probabilities, k)
		if !slices.Equal(got.Experts, want) {
			t.Fatalf("experts %v, want %v", got.Experts, want)
		}
		for i, id := range got.Experts {
			if math.Float32bits(got.Weights[i]) != math.Float32bits(probabilities[id]) {
				t.Fatalf("weight of expert %d is %v, want %v", id, got.Weights[i], probabilities[id])
			}
		}
	})
}

func TestNormalizeWeights(t *testing.T) {
	t.Parallel()
	w := []float32{0.1, 0.7, 0.05}
	sum := float32(float32(0.1)+float32(0.7)) + 0.05
	want := []float32{0.1 / sum, 0.7 / sum, 0.05 / sum}
	normalizeWeights(w)
	if !slices.Equal(w, want) {
		t.Errorf("got %v, want %v", w, want)
	}
	for _, untouched := range [][]float32{{0, 0}, {nan, 0.5}} {
		got := slices.Clone(untouched)
		normalizeWeights(got)
		if d := gocmp.Diff(untouched, got, equalNaN); d != "" {
			t.Error(d)
		}
	}
}
