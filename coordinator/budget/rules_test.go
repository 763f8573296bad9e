package budget

import (
	"math"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/moepool/moepool/coordinator/router"
)

// sum adds weights of experts of a row.
func sum(row router.Choice, of func(expert int32) bool) (sum float64) {
	for j, id := range row.Experts {
		if of(id) {
			sum += float64(row.Weights[j])
		}
	}
	return sum
}

func all(int32) bool { return true }

// presence says of each expert whether nothing has to be read for governed rows: it is resident, or a row needs it that isn't governed.
func (b *batch) presence(p Policy) map[int32]bool {
	present := map[int32]bool{}
	for id := range int32(drawnExperts) {
		present[id] = b.resident[id]
	}
	for i, row := range b.rows {
		if !p.Governs(b.phases[i]) {
			for _, id := range row.Experts {
				present[id] = true
			}
		}
	}
	return present
}

// topp: each row keeps the smallest set that reaches the share, and no other set of that size has more weight. Nothing else matters.
func TestTopP(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		b := drawBatch(t)
		b.normalize = false
		p := Policy{TopP: float64(rapid.IntRange(1, 63).Draw(t, "topp")) / 64, Prefill: rapid.Bool().Draw(t, "prefill"), Rescue: true}
		decision := b.of(clone(b.rows))
		decision.Resident = func(int32) bool { panic("asked for residency") }
		var c Cutter
		report := c.Apply(p, decision)
		for i, row := range decision.Rows {
			before := b.rows[i]
			if !p.Governs(b.phases[i]) {
				if d := cmp.Diff(before, row); d != "" {
					t.Fatalf("row %d isn't governed: %s", i, d)
				}
				continue
			}
			need := p.TopP * sum(before, all)
			if len(before.Experts) > 0 && sum(row, all) < need {
				t.Fatalf("row %d keeps %v of %v, less than %g", i, row, before, need)
			}
			// All smaller sets reach less, and those of the same size no more.
			for set := range 1 << len(before.Experts) {
				in := func(id int32) bool { return set>>slices.Index(before.Experts, id)&1 != 0 }
				size := 0
				for _, id := range before.Experts {
					if in(id) {
						size++
					}
				}
				if w := sum(before, in); size < len(row.Experts) && w >= need || size == len(row.Experts) && w > sum(row, all) {
					t.Fatalf("row %d keeps %v of %v for %g, but set %b is better", i, row, before, need, set)
				}
			}
			// Alone it would be the same.
			alone := &batch{rows: b.rows[i : i+1], phases: b.phases[i : i+1]}
			if rows, _ := alone.apply(p); cmp.Diff(rows[0], row) != "" {
				t.Fatalf("row %d is %v in company and %v alone", i, row, rows[0])
			}
		}
		if report.RescuedRows != 0 {
			t.Fatalf("%d rows rescued", report.RescuedRows)
		}
	})
}

// mass: no row loses more than the share, only misses go, and of these none is kept that all rows could still do without.
func TestMass(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		b := drawBatch(t)
		p := Policy{Mass: float64(rapid.IntRange(1, 63).Draw(t, "mass")) / 64, Prefill: rapid.Bool().Draw(t, "prefill"), Rescue: true}
		b.normalize = false
		rows, report := b.apply(p)
		present := b.presence(p)
		dropped := func(id int32) bool { return slices.Contains(report.Dropped, id) }
		light := map[int32]bool{} // misses that are kept, and could have been dropped
		for i, row := range rows {
			before := b.rows[i]
			if !p.Governs(b.phases[i]) {
				continue
			}
			most := p.Mass * sum(before, all)
			lost := sum(before, dropped)
			if lost > most || sum(row, all) != sum(before, all)-lost {
				t.Fatalf("row %d loses %g of at most %g: %v of %v", i, lost, most, row, before)
			}
			for j, id := range before.Experts {
				w := float64(before.Weights[j])
				if dropped(id) {
					if present[id] || w >= most {
						t.Fatalf("row %d: expert %d with weight %g of at most %g (exclusive) is dropped, present: %v", i, id, w, most, present[id])
					}
					continue
				}
				fits := !present[id] && w < most && lost+w <= most
				if known, ok := light[id]; ok {
					fits = fits && known
				}
				light[id] = fits
			}
		}
		for id, is := range light {
			if is {
				t.Fatalf("expert %d is kept, though all rows could do without it (dropped: %v)", id, report.Dropped)
			}
		}
		if report.RescuedRows != 0 {
			t.Fatal("a row would have lost everything")
		}
	})
}

// bytes: no worker reads more than that, and no dropped expert would have fitted when its turn came. Rescued rows are beyond it.
func TestBytes(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		b := drawBatch(t)
		p := Policy{Bytes: rapid.Int64Range(1, 8).Draw(t, "bytes"), Prefill: rapid.Bool().Draw(t, "prefill")}
		_, report := b.apply(p)
		present, mass := b.presence(p), map[int32]float64{}
		var union []int32
		for i, row := range b.rows {
			for j, id := range row.Experts {
				if p.Governs(b.phases[i]) {
					if mass[id] == 0 {
						union = append(union, id)
					}
					mass[id] += float64(row.Weights[j])
				}
			}
		}
		slices.SortFunc(union, func(x, y int32) int { return compare(mass[x], mass[y], x, y) })
		read := make([]int64, 3)
		for _, id := range union {
			fits := true
			for worker, bytes := range b.missing[id] {
				fits = fits && (present[id] || bytes == 0 || read[worker]+bytes <= p.Bytes)
			}
			if fits == slices.Contains(report.Dropped, id) {
				t.Fatalf("expert %d (weight %g, present: %v, bytes %v) of %v: dropped %v after %v bytes", id, mass[id], present[id], b.missing[id], union,
					report.Dropped, read)
			}
			for worker, bytes := range b.missing[id] {
				if fits && !present[id] {
					read[worker] += bytes
				}
			}
		}
		if slices.Max(read) > p.Bytes {
			t.Fatalf("workers read %v", read)
		}
	})
}

// fill: a row takes only experts of its own best that cost nothing, the best of these, and no more than it lost.
func TestFill(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		b, p := drawBatch(t), drawPolicy(t)
		p.Fill, b.normalize = 0, false
		if p.Off() {
			p.Count = 1
		}
		unfilled, without := b.apply(p)
		p.Fill = drawnExperts
		rows, report := b.apply(p)
		present := b.presence(p)
		for _, row := range unfilled { // what is computed anyway
			for _, id := range row.Experts {
				present[id] = true
			}
		}
		taken := 0
		for i, row := range rows {
			if !p.Governs(b.phases[i]) {
				continue
			}
			kept := func(id int32) bool { return slices.Contains(unfilled[i].Experts, id) }
			lost := len(b.rows[i].Experts) - len(unfilled[i].Experts)
			var want []int32
			for _, id := range b.candidates[i].Experts {
				if len(want) < lost && present[id] && !kept(id) {
					want = append(want, id)
				}
			}
			for _, id := range want {
				if !slices.Contains(b.rows[i].Experts, id) {
					taken++
				}
			}
			want = append(want, unfilled[i].Experts...)
			if got := slices.Sorted(slices.Values(row.Experts)); !slices.Equal(got, slices.Sorted(slices.Values(want))) {
				t.Fatalf("row %d: %v, want %v of %v; it was %v and %v without fill", i, got, want, b.candidates[i], b.rows[i], unfilled[i])
			}
			if len(want) > len(unfilled[i].Experts) && !slices.IsSorted(row.Experts) {
				t.Fatalf("row %d: ids don't ascend: %v", i, row.Experts)
			}
			for j, id := range row.Experts {
				if w := b.candidates[i].Weights[slices.Index(b.candidates[i].Experts, id)]; row.Weights[j] != w {
					t.Fatalf("row %d: expert %d has weight %g, want %g", i, id, row.Weights[j], w)
				}
			}
		}
		if report.FilledChoices != taken || report.RescuedRows != without.RescuedRows {
			t.Fatalf("%d taken, %d rescued, want %d and %d", report.FilledChoices, report.RescuedRows, taken, without.RescuedRows)
		}
	})
}

// Whatever the rules: what a report says agrees with what has become of the rows.
func TestReport(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		b, p := drawBatch(t), drawPolicy(t)
		if p.Off() {
			return
		}
		rows, report := b.apply(p)
		before, after := map[int32]bool{}, map[int32]bool{}
		cut, lostChoices, filled, mass := 0, 0, 0, 0.0
		var shares []float64
		for i, row := range rows {
			was := b.rows[i]
			for _, id := range was.Experts {
				before[id] = true
			}
			for _, id := range row.Experts {
				after[id] = true
			}
			if !p.Governs(b.phases[i]) {
				if d := cmp.Diff(was, row); d != "" {
					t.Fatalf("row %d isn't governed: %s", i, d)
				}
				continue
			}
			gone := func(id int32) bool { return !slices.Contains(row.Experts, id) }
			lost := sum(was, gone)
			n := 0
			for _, id := range was.Experts {
				if gone(id) {
					n++
				}
			}
			more := len(row.Experts) - (len(was.Experts) - n)
			if n > more {
				cut++
			}
			lostChoices, filled, mass = lostChoices+n, filled+more, mass+lost
			share := 0.0
			if n > 0 {
				share = lost / sum(was, all)
			}
			shares = append(shares, share)
			if p.Rescue && len(was.Experts) > 0 && len(row.Experts) == 0 {
				t.Fatalf("row %d lost all its experts", i)
			}
			switch {
			case n == 0:
				if d := cmp.Diff(was, row); d != "" {
					t.Fatalf("row %d lost nothing: %s", i, d)
				}
			case p.Unscaled || !b.normalize:
				for j, id := range row.Experts {
					if w := b.candidates[i].Weights[slices.Index(b.candidates[i].Experts, id)]; row.Weights[j] != w {
						t.Fatalf("row %d: expert %d has weight %g, want %g", i, id, row.Weights[j], w)
					}
				}
			case len(row.Experts) > 0:
				if got, want := sum(row, all), sum(was, all); math.Abs(got-want) > 1e-6 {
					t.Fatalf("row %d has the mass %g, it had %g", i, got, want)
				}
			}
		}
		var dropped, new []int32
		for id := range int32(drawnExperts) {
			if before[id] && !after[id] {
				dropped = append(dropped, id)
			}
			if after[id] && !before[id] {
				new = append(new, id)
			}
		}
		want := Report{Rows: len(shares), CutRows: cut, RescuedRows: report.RescuedRows, Dropped: dropped, DroppedExperts: len(dropped), Filled: new,
			LostChoices: lostChoices, FilledChoices: filled, DroppedMass: mass, Shares: shares}
		if !slices.Equal(report.Dropped, want.Dropped) || !slices.Equal(report.Filled, want.Filled) || !slices.Equal(report.Shares, want.Shares) {
			t.Fatalf("%+v, want %+v", report, want)
		}
		report.Dropped, report.Filled, report.Shares, want.Dropped, want.Filled, want.Shares = nil, nil, nil, nil, nil, nil
		if d := cmp.Diff(want, report); d != "" {
			t.Fatal(d)
		}
	})
}

// A Cutter that was used before decides as a new one does, and the same batch gives the same decision.
func TestReuse(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		var c Cutter
		for range 3 {
			b, p := drawBatch(t), drawPolicy(t)
			want, wantReport := b.apply(p)
			got := clone(b.rows)
			report := c.Apply(p, b.of(got))
			if d := cmp.Diff(want, got); d != "" {
				t.Fatal(d)
			}
			if report.DroppedMass != wantReport.DroppedMass || !slices.Equal(report.Dropped, wantReport.Dropped) || !slices.Equal(report.Filled, wantReport.Filled) ||
				!slices.Equal(report.Shares, wantReport.Shares) {
				t.Fatalf("%+v, want %+v", report, wantReport)
			}
		}
	})
}

// A decision allocates nothing once its memory is there.
func TestAllocations(t *testing.T) {
	p := Policy{Count: 2, Mass: 0.2, TopP: 0.9, Bytes: 3, Fill: 6, Rescue: true}
	b := &batch{
		rows:   []router.Choice{{Experts: []int32{1, 2, 3}, Weights: []float32{0.5, 0.25, 0.25}}, {Experts: []int32{4, 5, 6}, Weights: []float32{0.5, 0.25, 0.25}}},
		phases: []Phase{Decode, Decode}, resident: map[int32]bool{7: true}, missing: map[int32][]int64{1: {2, 1}, 2: {1}, 4: {3}}, normalize: true,
	}
	for range b.rows {
		b.candidates = append(b.candidates, router.Choice{Experts: []int32{1, 4, 7}, Weights: []float32{0.5, 0.5, 0.1}})
	}
	rows := clone(b.rows)
	decision := b.of(rows)
	var c Cutter
	allocations := testing.AllocsPerRun(100, func() {
		for i := range rows {
			rows[i].Experts, rows[i].Weights = append(rows[i].Experts[:0], b.rows[i].Experts...), append(rows[i].Weights[:0], b.rows[i].Weights...)
		}
		if r := c.Apply(p, decision); len(r.Dropped) == 0 {
			t.Fatal("nothing was dropped")
		}
	})
	if allocations > 0 {
		t.Errorf("%g allocations", allocations)
	}
}
