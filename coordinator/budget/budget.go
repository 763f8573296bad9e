// Package budget owns the expert budget (DESIGN §7): which experts of a batch's union are computed. Pure: values in,
// decision out. It must not know how residency is measured or who computes an expert.
package budget

import (
	"cmp"
	"math"
	"slices"

	"github.com/moepool/moepool/coordinator/router"
)

// Phase is what a row is computed for.
type Phase uint8

// The phases.
const (
	Prefill Phase = iota
	Decode
	Verify
)

// Report counts what a decision did.
type Report struct {
	DroppedExperts int     // distinct experts of the layer
	DroppedMass    float64 // combine weight removed from rows, before any rescaling; NaN weights are left out
	RescuedRows    int
	Dropped        []int32 // ids, ascending
}

// Apply filters rows (in place) of one layer. phases[i] is the phase of rows[i]; resident tells a hit; normalize is the
// model's norm_topk_prob: only then are the survivors rescaled to the row's former total. Expert ids are not negative; the order
// of a row's experts stays as it is.
//
// The rule: U is the union of the governed rows' experts. What ungoverned rows need is computed anyway, so it counts as present,
// like a resident expert. If |U| > Count, all present experts of U are kept, and of the others the first max(0, Count - present)
// by descending sum of weights over the governed rows.
func Apply(p Policy, rows []router.Choice, phases []Phase, resident func(expert int32) bool, normalize bool) Report {
	if p.Count <= 0 {
		return Report{}
	}
	experts := union(p, rows, phases)
	kept, dropped := divide(experts, p.Count, resident)
	if len(dropped) == 0 {
		return Report{}
	}
	keep := make([]bool, len(experts.mass))
	for _, id := range kept {
		keep[id] = true
	}
	report := Report{}
	if p.Rescue {
		report.RescuedRows = rescue(p, rows, phases, keep)
	}
	for _, id := range dropped {
		if !keep[id] {
			report.Dropped = append(report.Dropped, id)
		}
	}
	slices.Sort(report.Dropped)
	report.DroppedExperts = len(report.Dropped)
	for i := range rows {
		if p.governs(phases[i]) {
			report.DroppedMass += filter(&rows[i], keep, normalize)
		}
	}
	return report
}

func (p Policy) governs(phase Phase) bool { return phase != Prefill || p.Prefill }

// wanted is what a batch's rows need, indexed by expert.
type wanted struct {
	ids     []int32   // U, in order of first use
	mass    []float64 // sum of weights over the governed rows, in the order of rows
	present []bool    // needed by a row that the budget doesn't govern
}

func union(p Policy, rows []router.Choice, phases []Phase) wanted {
	largest := int32(-1)
	for i := range rows {
		for _, id := range rows[i].Experts {
			largest = max(largest, id)
		}
	}
	w := wanted{mass: make([]float64, largest+1), present: make([]bool, largest+1)}
	seen := make([]bool, largest+1)
	for i := range rows {
		governed := p.governs(phases[i])
		for j, id := range rows[i].Experts {
			if !governed {
				w.present[id] = true
				continue
			}
			if !seen[id] {
				seen[id] = true
				w.ids = append(w.ids, id)
			}
			w.mass[id] += float64(rows[i].Weights[j])
		}
	}
	return w
}

// divide splits the union by the count; nothing is dropped if it fits.
func divide(w wanted, count int, resident func(expert int32) bool) (kept, dropped []int32) {
	if len(w.ids) <= count {
		return w.ids, nil
	}
	var misses []int32
	for _, id := range w.ids {
		if w.present[id] || resident(id) {
			kept = append(kept, id)
		} else {
			misses = append(misses, id)
		}
	}
	slices.SortFunc(misses, func(a, b int32) int { return compare(w.mass[a], w.mass[b], a, b) })
	room := min(max(0, count-len(kept)), len(misses))
	return append(kept, misses[:room]...), misses[room:]
}

// compare orders by descending weight, NaN last, ties by the lower id.
func compare[F float32 | float64](a, b F, ida, idb int32) int {
	switch {
	case a != a && b != b, a == b:
		return cmp.Compare(ida, idb)
	case a != a:
		return 1
	case b != b:
		return -1
	}
	return cmp.Compare(b, a)
}

// rescue adds to keep the best expert of each governed row that would be left with none, and counts those rows. All rows are judged
// by the set as it was, so their order doesn't matter.
func rescue(p Policy, rows []router.Choice, phases []Phase, keep []bool) (rescued int) {
	var best []int32
	for i := range rows {
		row := rows[i]
		if !p.governs(phases[i]) || len(row.Experts) == 0 || slices.ContainsFunc(row.Experts, func(id int32) bool { return keep[id] }) {
			continue
		}
		rescued++
		at := 0
		for j := range row.Experts {
			if compare(row.Weights[j], row.Weights[at], row.Experts[j], row.Experts[at]) < 0 {
				at = j
			}
		}
		best = append(best, row.Experts[at])
	}
	for _, id := range best {
		keep[id] = true
	}
	return rescued
}

// filter removes a row's experts that are not kept, rescales the others to the former total if normalize, and gives the weight
// removed. A row that loses nothing is not touched.
func filter(row *router.Choice, keep []bool, normalize bool) (removed float64) {
	var before, after float64
	n := 0
	for j, id := range row.Experts {
		w := float64(row.Weights[j])
		before += w
		if !keep[id] {
			if w == w {
				removed += w
			}
			continue
		}
		after += w
		row.Experts[n], row.Weights[n] = id, row.Weights[j]
		n++
	}
	if n == len(row.Experts) {
		return 0
	}
	row.Experts, row.Weights = row.Experts[:n], row.Weights[:n]
	// A total that is zero or not finite has no meaning as a scale.
	if factor := before / after; normalize && after > 0 && factor > 0 && factor <= math.MaxFloat64 {
		for j, w := range row.Weights {
			row.Weights[j] = float32(float64(w) * factor)
		}
	}
	return removed
}
