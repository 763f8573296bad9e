package budget

import (
	"slices"

	"github.com/moepool/moepool/coordinator/router"
)

// Remove takes experts out of rows (in place) because nobody can compute them: of rows of every phase, and none is kept. The rest is as in
// Apply: the survivors of a row that loses something are rescaled to the row's former total if the model normalises its top-k
// probabilities, and else not touched. missing is indexed by expert. emptied counts the rows that have no expert left.
func Remove(rows []router.Choice, missing []bool, normalize bool) (report Report, emptied int) {
	dropped := make([]bool, len(missing))
	for i := range rows {
		row := &rows[i]
		for _, id := range row.Experts {
			dropped[id] = dropped[id] || missing[id]
		}
		before := router.Choice{Experts: slices.Clone(row.Experts), Weights: slices.Clone(row.Weights)}
		keepOnly(row, func(id int32) bool { return !missing[id] })
		lost, removed := difference(&before, row)
		if lost == 0 {
			continue
		}
		report.CutRows++
		report.LostChoices += lost
		report.DroppedMass += removed
		if normalize {
			rescale(row, total(before.Weights))
		}
		if len(row.Experts) == 0 {
			emptied++
		}
	}
	for id := range dropped {
		if dropped[id] {
			report.Dropped = append(report.Dropped, int32(id))
		}
	}
	report.DroppedExperts = len(report.Dropped)
	return report, emptied
}
