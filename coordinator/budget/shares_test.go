package budget

import (
	"math"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"
)

func TestShares(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		share := rapid.OneOf(rapid.Just(0.0), rapid.Float64Range(0, 1), rapid.Custom(func(t *rapid.T) float64 {
			return float64(rapid.IntRange(0, 100).Draw(t, "percent")) / 100
		}))
		before := rapid.SliceOfN(share, 0, 20).Draw(t, "before")
		after := rapid.SliceOfN(share, 1, 20).Draw(t, "after")
		var s Shares
		for _, x := range before {
			s.Add(x)
		}
		was := s
		for _, x := range after {
			s.Add(x)
		}
		check(t, s, slices.Concat(before, after), true)
		check(t, s.Since(&was), after, slices.Max(after) > was.Most)
	})
}

func check(t *rapid.T, s Shares, shares []float64, exact bool) {
	total := 0.0
	for _, x := range shares {
		total += x
	}
	slices.Sort(shares)
	n := len(shares)
	if s.Rows != uint64(n) || math.Abs(s.Mean()-total/float64(n)) > 1e-12 {
		t.Fatalf("%d rows, mean %g, want %d and %g", s.Rows, s.Mean(), n, total/float64(n))
	}
	most := shares[n-1]
	if exact && s.Most != most || s.Most < most || s.Most > most+0.01+1e-12 {
		t.Fatalf("at most %g, want %g", s.Most, most)
	}
	for _, q := range []float64{0.5, 0.99, 1} {
		want := shares[max(int(math.Ceil(q*float64(n))), 1)-1]
		if got := s.Quantile(q); got < want || got > want+0.01+1e-12 {
			t.Fatalf("quantile %g is %g, want %g", q, got, want)
		}
	}
	for bound, count := range s.Below([]int{0, 5, 50, 100}) {
		want := uint64(0)
		for _, x := range shares {
			if x <= bound {
				want++
			}
		}
		if count != want {
			t.Fatalf("%d rows lost at most %g, want %d", count, bound, want)
		}
	}
}

func TestNoShares(t *testing.T) {
	t.Parallel()
	var s Shares
	if s.Mean() != 0 || s.Quantile(0.99) != 0 || s.Most != 0 {
		t.Errorf("%+v", s)
	}
}

// Counts are what reports say, and a difference of two readings is what came between them.
func TestCounts(t *testing.T) {
	t.Parallel()
	r := Report{Rows: 2, CutRows: 1, RescuedRows: 3, DroppedExperts: 4, LostChoices: 5, FilledChoices: 6, DroppedMass: 0.5, Shares: []float64{0, 0.25}}
	var c Counts
	c.Add(&r)
	before := c
	c.Add(&r)
	want := Counts{DroppedExperts: 4, LostChoices: 5, FilledChoices: 6, CutRows: 1, RescuedRows: 3, DroppedMass: 0.5}
	for _, share := range r.Shares {
		want.Shares.Add(share)
	}
	if d := cmp.Diff(want, before); d != "" {
		t.Error(d)
	}
	if d := cmp.Diff(want, c.Since(&before)); d != "" {
		t.Error(d)
	}
}
