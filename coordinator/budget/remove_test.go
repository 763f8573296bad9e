package budget

import (
	"slices"
	"testing"

	"github.com/moepool/moepool/coordinator/router"
	"pgregory.net/rapid"
)

// TestRemove: exactly the missing experts leave the rows, of every phase, whatever is left of them; the report counts them.
func TestRemove(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		normalize := rapid.Bool().Draw(t, "normalize")
		missing := rapid.SliceOfN(rapid.Bool(), 6, 6).Draw(t, "missing")
		var rows, before []router.Choice
		for range rapid.IntRange(0, 5).Draw(t, "rows") {
			ids := rapid.SliceOfNDistinct(rapid.Int32Range(0, 5), 0, 4, rapid.ID[int32]).Draw(t, "experts")
			row := router.Choice{Experts: ids}
			for range ids {
				row.Weights = append(row.Weights, float32(rapid.IntRange(1, 8).Draw(t, "weight"))/8)
			}
			before = append(before, row)
			rows = append(rows, router.Choice{Experts: slices.Clone(ids), Weights: slices.Clone(row.Weights)})
		}
		report, emptied := Remove(rows, missing, normalize)
		var dropped []int32
		mass, empty := 0.0, 0
		for i, b := range before {
			want := router.Choice{}
			total, kept := 0.0, 0.0
			for k, id := range b.Experts {
				w := float64(b.Weights[k])
				total += w
				if missing[id] {
					mass += w
					dropped = append(dropped, id)
					continue
				}
				kept += w
				want.Experts, want.Weights = append(want.Experts, id), append(want.Weights, b.Weights[k])
			}
			if normalize && len(want.Experts) < len(b.Experts) {
				for k, w := range want.Weights {
					want.Weights[k] = float32(float64(w) * (total / kept))
				}
			}
			if len(b.Experts) > 0 && len(want.Experts) == 0 {
				empty++
			}
			if !slices.Equal(rows[i].Experts, want.Experts) || !slices.Equal(rows[i].Weights, want.Weights) {
				t.Fatalf("row %d: %+v, want %+v", i, rows[i], want)
			}
		}
		slices.Sort(dropped)
		dropped = slices.Compact(dropped)
		if !slices.Equal(report.Dropped, dropped) || report.DroppedExperts != len(dropped) || report.DroppedMass != mass || emptied != empty || report.RescuedRows != 0 {
			t.Fatalf("%+v and %d emptied, want %v, %g and %d", report, emptied, dropped, mass, empty)
		}
	})
}
