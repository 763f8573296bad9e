package budget

import (
	"maps"
	"math"
	"reflect"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"pgregory.net/rapid"
)

// slow is the rule as DESIGN §7 words it, with sets, and gives the kept experts.
func slow(p Policy, b *batch) (kept map[int32]bool, dropped []int32, rescued int) {
	union, present, mass := map[int32]bool{}, map[int32]bool{}, map[int32]float64{}
	for i, row := range b.rows {
		for j, id := range row.Experts {
			if b.phases[i] == Prefill && !p.Prefill {
				present[id] = true
				continue
			}
			union[id] = true
			mass[id] += float64(row.Weights[j])
		}
	}
	kept = map[int32]bool{}
	if p.Count == 0 || len(union) <= p.Count {
		return union, nil, 0
	}
	for id := range union {
		if present[id] || b.resident[id] {
			kept[id] = true
		}
	}
	for room := p.Count - len(kept); room > 0; room-- {
		best := int32(-1)
		for id := range union {
			if !kept[id] && (best < 0 || mass[id] > mass[best] || mass[id] == mass[best] && id < best) {
				best = id
			}
		}
		if best < 0 {
			break
		}
		kept[best] = true
	}
	if p.Rescue {
		saved := map[int32]bool{}
		for i, row := range b.rows {
			if b.phases[i] == Prefill && !p.Prefill || len(row.Experts) == 0 ||
				slices.ContainsFunc(row.Experts, func(id int32) bool { return kept[id] }) {
				continue
			}
			rescued++
			best := 0
			for j, w := range row.Weights { // ids ascend, so a strict comparison keeps the lower one
				if w > row.Weights[best] {
					best = j
				}
			}
			saved[row.Experts[best]] = true
		}
		maps.Copy(kept, saved)
	}
	for id := range union {
		if !kept[id] {
			dropped = append(dropped, id)
		}
	}
	slices.Sort(dropped)
	return kept, dropped, rescued
}

func TestApplyEqualsSlowVersion(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		b := drawBatch(t)
		p := Policy{Count: rapid.IntRange(0, 8).Draw(t, "count"), Prefill: rapid.Bool().Draw(t, "prefill"), Rescue: rapid.Bool().Draw(t, "rescue")}
		kept, dropped, rescued := slow(p, b)

		rows, report := b.apply(p)
		if !slices.Equal(report.Dropped, dropped) || report.DroppedExperts != len(dropped) || report.RescuedRows != rescued {
			t.Fatalf("report %+v, want dropped %v and %d rescued", report, dropped, rescued)
		}
		var mass float64
		for i, row := range rows {
			before := b.rows[i]
			if b.phases[i] == Prefill && !p.Prefill {
				if !slices.Equal(row.Experts, before.Experts) || !slices.Equal(row.Weights, before.Weights) {
					t.Fatalf("prefill row %d was touched", i)
				}
				continue
			}
			var experts []int32
			var weights []float32
			var total, rest float64
			for j, id := range before.Experts {
				total += float64(before.Weights[j])
				if kept[id] {
					rest += float64(before.Weights[j])
					experts, weights = append(experts, id), append(weights, before.Weights[j])
				}
			}
			mass += total - rest
			if !slices.Equal(row.Experts, experts) {
				t.Fatalf("row %d has experts %v, want %v", i, row.Experts, experts)
			}
			for j, w := range weights {
				if b.normalize && len(experts) < len(before.Experts) {
					w = float32(float64(w) * (total / rest))
				}
				if math.Float32bits(row.Weights[j]) != math.Float32bits(w) {
					t.Fatalf("row %d expert %d has weight %v, want exactly %v", i, experts[j], row.Weights[j], w)
				}
			}
			if p.Rescue && len(before.Experts) > 0 && len(row.Experts) == 0 {
				t.Fatalf("row %d lost all its experts", i)
			}
		}
		if report.DroppedMass != mass {
			t.Fatalf("dropped mass %v, want %v", report.DroppedMass, mass)
		}
	})
}

// Off is no budget code at all: the same slices with the same bits.
func TestOffTouchesNothing(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		b := drawBatch(t)
		rows := slices.Clone(b.rows)
		c, decision := Cutter{}, b.of(rows)
		decision.Resident = func(int32) bool { panic("asked for residency") }
		report := c.Apply(Policy{Rescue: true, Prefill: true, Fill: 3}, decision)
		if !reflect.DeepEqual(report, Report{}) {
			t.Fatalf("report %+v", report)
		}
		if !reflect.DeepEqual(rows, b.rows) {
			t.Fatal("a row was touched")
		}
	})
}

// The order of rows doesn't change what is kept (the weights drawn here add exactly).
func TestOrderOfRowsDoesNotMatter(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		b, p := drawBatch(t), drawPolicy(t)
		first, want := b.apply(p)
		for _, list := range []func(){func() { slices.Reverse(b.rows) }, func() { slices.Reverse(b.phases) }, func() { slices.Reverse(b.candidates) }} {
			list()
		}
		reversed, got := b.apply(p)
		slices.Reverse(reversed)
		if !slices.Equal(got.Dropped, want.Dropped) || !slices.Equal(got.Filled, want.Filled) || got.RescuedRows != want.RescuedRows {
			t.Fatalf("reversed rows: %+v, want %+v", got, want)
		}
		if d := cmp.Diff(first, reversed, cmpopts.EquateEmpty()); d != "" {
			t.Fatalf("rows differ: %s", d)
		}
	})
}
