package evaluation

import (
	"math"
	"os"
	"slices"
	"testing"
)

// Logits come back with the bits they had, whatever the order in which they were written.
func TestReferenceFile(t *testing.T) {
	t.Parallel()
	windows := [][]int32{{1, 2, 3}, {4}, {5, 6}}
	if got, want := ReferenceBytes(windows, 5), int64(3*5*4); got != want {
		t.Errorf("%d bytes, want %d", got, want)
	}
	dir := t.TempDir()
	r, err := newReference(windows, 5, dir)
	if err != nil {
		t.Fatal(err)
	}
	all := map[place][]float32{
		{2, 0}: {1, float32(math.Inf(-1)), 3, 4, -0.1}, {0, 1}: {-1, -2, -3, -4, -5}, {0, 0}: {math.MaxFloat32, math.SmallestNonzeroFloat32, 0, 7, 8},
	}
	for at, logits := range all {
		if err := r.keep(at, logits); err != nil {
			t.Fatal(err)
		}
	}
	for at, want := range all {
		if got, err := r.at(at); err != nil || !slices.Equal(got, want) {
			t.Errorf("%v: %v, %v; want %v", at, got, err, want)
		}
	}
	if err := r.keep(place{0, 0}, make([]float32, 4)); err == nil {
		t.Error("a position with 4 logits of 5 is kept")
	}
	if err := r.Close(); err != nil {
		t.Error(err)
	}
	if left, err := os.ReadDir(dir); err != nil || len(left) > 0 {
		t.Errorf("left behind: %v, %v", left, err)
	}
}

func TestKLDError(t *testing.T) {
	t.Parallel()
	d := &Divergence{KLD: []float64{1, 2, 6}} // mean 3, variance (4+1+9)/3, by n-1 = 2
	near(t, "standard error", d.MeanKLDError(), math.Sqrt(14.0/3/2))
}
