package checkpoint

import (
	"cmp"
	"slices"
	"strings"
)

// lookAlike describes the names that are most like the wanted one: those that share the longest beginning and end with it.
func lookAlike(wanted string, names []string) string {
	if len(names) == 0 {
		return "none: there are no tensors"
	}
	type scored struct {
		name  string
		score int
	}
	best := make([]scored, 0, 4)
	for _, name := range names {
		score := sharedEnds(wanted, name)
		if score == 0 || len(best) == 3 && score <= best[2].score {
			continue
		}
		best = append(best, scored{name, score})
		slices.SortStableFunc(best, func(a, b scored) int { return cmp.Compare(b.score, a.score) })
		best = best[:min(len(best), 3)]
	}
	if len(best) == 0 {
		return "none that looks like it"
	}
	alike := make([]string, len(best))
	for i := range best {
		alike[i] = best[i].name
	}
	return "none; like it: " + strings.Join(alike, ", ")
}

// sharedEnds counts the bytes of the common beginning and of the common end, without counting any twice.
func sharedEnds(a, b string) int {
	shorter := min(len(a), len(b))
	start := 0
	for start < shorter && a[start] == b[start] {
		start++
	}
	end := 0
	for end < shorter-start && a[len(a)-1-end] == b[len(b)-1-end] {
		end++
	}
	return start + end
}
