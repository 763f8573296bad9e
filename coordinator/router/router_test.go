package router

import (
	"cmp"
	"math"
	"slices"
	"testing"

	gocmp "github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	_ "github.com/moepool/moepool/internal/propertyseed"
	"github.com/moepool/moepool/kernels"
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

// Candidates are a stable sort by probability, best first; those that a choice has too have its weights, bit for bit, and the more are asked for
// the longer the list, with the same beginning.
func TestCandidates(t *testing.T) {
	t.Parallel()
	set, err := kernels.Select("")
	if err != nil {
		t.Fatal(err)
	}
	rapid.Check(t, func(t *rapid.T) {
		scores := rapid.SliceOfN(rapid.Float32Range(-3, 3), 1, 40).Draw(t, "scores")
		k, normalize := rapid.IntRange(0, 8).Draw(t, "k"), rapid.Bool().Draw(t, "normalize")
		var choice, all Choice
		divisor := TopK(set, &choice, scores, k, normalize)
		Candidates(&all, scores, len(scores), divisor)
		if len(all.Experts) != len(scores) {
			t.Fatalf("%d candidates of %d", len(all.Experts), len(scores))
		}
		for i := range all.Experts[1:] {
			a, b := all.Experts[i], all.Experts[i+1]
			if scores[a] < scores[b] || scores[a] == scores[b] && a > b {
				t.Fatalf("candidate %d is expert %d, before %d", i, a, b)
			}
		}
		own := Choice{slices.Clone(all.Experts[:min(k, len(scores))]), slices.Clone(all.Weights[:min(k, len(scores))])}
		own.SortByID()
		if !slices.Equal(choice.Experts, own.Experts) || !slices.Equal(choice.Weights, own.Weights) {
			t.Fatalf("the first %d are %v, not the choice %v", k, own, choice)
		}
		m := rapid.IntRange(0, 50).Draw(t, "m")
		some := Choice{Experts: []int32{7, 7, 7}, Weights: []float32{7}}
		Candidates(&some, scores, m, divisor)
		if n := min(m, len(scores)); !slices.Equal(some.Experts, all.Experts[:n]) || !slices.Equal(some.Weights, all.Weights[:n]) {
			t.Fatalf("%d of %v are %v", m, all, some)
		}
	})
}
