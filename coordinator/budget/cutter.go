package budget

import (
	"math"
	"slices"

	"github.com/moepool/moepool/coordinator/router"
)

// Batch is what a layer's decision is about.
type Batch struct {
	Rows   []router.Choice // what the router chose for each row; Apply changes them. Ids are not negative, and distinct in a row
	Phases []Phase         // of each row
	// Candidates are each row's best experts, best first, with the weights that they would have beside the row's own; only for a policy with
	// fill. The row's own experts may be among them. Those of rows that aren't governed are not looked at.
	Candidates []router.Choice
	Normalize  bool // the model's norm_topk_prob
	// Resident tells a hit: all parts of an expert are in memory. It must give the same answer for the same expert.
	Resident func(expert int32) bool
	// Missing tells of each part of an expert that is not in memory how many bytes it has and which worker would read it; only for a policy
	// with bytes. Workers are small numbers from 0 up.
	Missing func(expert int32, part func(worker int, bytes int64))
}

// Report is what a decision did. Its lists are valid until the next decision.
type Report struct {
	Rows        int // governed
	CutRows     int // of these, those that lost experts and have not got all of them back
	RescuedRows int

	Dropped        []int32 // experts that rows wanted and nobody computes, ascending
	DroppedExperts int     // how many
	Filled         []int32 // experts that are computed though no row wanted them, since rows took them in place of lost ones; ascending
	LostChoices    int     // experts that rows lost, summed over the rows; other rows may have kept them
	FilledChoices  int     // experts that rows took in their place

	DroppedMass float64 // combine weight removed from rows, before any rescaling; NaN weights are left out
	// Shares are, for each governed row in order, the share of its mass that was removed; what it took instead is not subtracted. Where the
	// mass is not a positive number it is the share of its experts.
	Shares []float64
}

// Cutter makes decisions. It holds nothing but memory that is used again.
type Cutter struct {
	policy Policy
	*Batch

	original []router.Choice // of governed rows, as they came
	used     int             // of original
	wanted   []bool          // by expert: a row wants it, of any phase, before the decision
	present  []bool          // by expert: a row that isn't governed wants it
	mass     []float64       // by expert: sum of weights over the governed rows, in the order of rows
	keep     []bool          // by expert of U
	inUnion  []bool          // by expert
	union    []int32         // U, in order of first use
	misses   []int32         // of U, in the order in which they are looked at
	rescued  []int32
	order    []int32   // of a row's experts
	most     []float64 // by row: what it may lose by the rule mass
	lost     []float64 // by row: what it has lost by it
	read     []int64   // by worker
	costs    []cost    // of the expert in question
	cost     func(worker int, bytes int64)
	dropped  []int32
	filled   []int32
	shares   []float64
}

// Apply decides, and changes the governed rows: the remaining experts of a row keep their order, and if it took others its ids ascend. With a policy
// that is off it does nothing at all.
func (c *Cutter) Apply(p Policy, b *Batch) Report {
	if p.Off() {
		return Report{}
	}
	c.policy, c.Batch = p, b
	defer func() { c.Batch = nil }()
	c.begin()
	if p.TopP > 0 {
		c.topP()
	}
	c.unite()
	c.dropMisses()
	report := Report{}
	if p.Rescue {
		report.RescuedRows = c.rescue()
	}
	c.filter()
	if p.Fill != 0 {
		c.fill()
	}
	c.finish(&report)
	return report
}

func (c *Cutter) governed(row int) bool { return c.policy.Governs(c.Phases[row]) }

// begin notes what the rows want.
func (c *Cutter) begin() {
	experts := 0
	for _, choices := range [][]router.Choice{c.Rows, c.Candidates} {
		for i := range choices {
			for _, id := range choices[i].Experts {
				experts = max(experts, int(id)+1)
			}
		}
	}
	c.wanted, c.present, c.keep, c.inUnion = zeroed(c.wanted, experts), zeroed(c.present, experts), zeroed(c.keep, experts), zeroed(c.inUnion, experts)
	c.mass = zeroed(c.mass, experts)
	c.used = 0
	for i := range c.Rows {
		governed := c.governed(i)
		for _, id := range c.Rows[i].Experts {
			c.wanted[id] = true
			if !governed {
				c.present[id] = true
			}
		}
		if governed {
			if c.used == len(c.original) {
				c.original = append(c.original, router.Choice{})
			}
			o := &c.original[c.used]
			o.Experts, o.Weights = append(o.Experts[:0], c.Rows[i].Experts...), append(o.Weights[:0], c.Rows[i].Weights...)
			c.used++
		}
	}
}

// zeroed gives a slice of n zero values, with the same memory if it is large enough.
func zeroed[T any](x []T, n int) []T {
	if cap(x) < n {
		return make([]T, n)
	}
	x = x[:n]
	clear(x)
	return x
}

// unite finds U and the batch's weights of its experts, and keeps all of it.
func (c *Cutter) unite() {
	c.union = c.union[:0]
	for i := range c.Rows {
		if !c.governed(i) {
			continue
		}
		for j, id := range c.Rows[i].Experts {
			if !c.inUnion[id] {
				c.inUnion[id], c.keep[id] = true, true
				c.union = append(c.union, id)
			}
			c.mass[id] += float64(c.Rows[i].Weights[j])
		}
	}
}

// rescue keeps the best expert of each governed row that would be left with none, and counts those rows.
func (c *Cutter) rescue() (rescued int) {
	c.rescued = c.rescued[:0]
	for i := range c.Rows {
		row := &c.Rows[i]
		if !c.governed(i) || len(row.Experts) == 0 || slices.ContainsFunc(row.Experts, func(id int32) bool { return c.keep[id] }) {
			continue
		}
		rescued++
		best := 0
		for j := range row.Experts {
			if compare(row.Weights[j], row.Weights[best], row.Experts[j], row.Experts[best]) < 0 {
				best = j
			}
		}
		c.rescued = append(c.rescued, row.Experts[best])
	}
	for _, id := range c.rescued {
		c.keep[id] = true
	}
	return rescued
}

// filter takes the experts out of governed rows that are not kept.
func (c *Cutter) filter() {
	for i := range c.Rows {
		if c.governed(i) {
			row := &c.Rows[i]
			keepOnly(row, func(id int32) bool { return c.keep[id] })
		}
	}
}

// keepOnly takes experts out of a row.
func keepOnly(row *router.Choice, keep func(expert int32) bool) {
	n := 0
	for j, id := range row.Experts {
		if keep(id) {
			row.Experts[n], row.Weights[n] = id, row.Weights[j]
			n++
		}
	}
	row.Experts, row.Weights = row.Experts[:n], row.Weights[:n]
}

// finish rescales the rows that have changed, and reports.
func (c *Cutter) finish(r *Report) {
	c.dropped, c.filled, c.shares = c.dropped[:0], c.filled[:0], c.shares[:0]
	computed := c.inUnion // from here on: a row wants it after the decision
	clear(computed)
	next := 0
	for i := range c.Rows {
		row := &c.Rows[i]
		for _, id := range row.Experts {
			computed[id] = true
		}
		if !c.governed(i) {
			continue
		}
		before := &c.original[next]
		next++
		lost, removed := difference(before, row)
		taken := len(row.Experts) - (len(before.Experts) - lost)
		r.Rows++
		if lost > taken {
			r.CutRows++
		}
		r.LostChoices += lost
		r.FilledChoices += taken
		r.DroppedMass += removed
		c.shares = append(c.shares, lostShare(before, lost, removed))
		if lost > 0 && c.Normalize && !c.policy.Unscaled {
			rescale(row, total(before.Weights))
		}
	}
	for id, wanted := range c.wanted {
		switch {
		case wanted && !computed[id]:
			c.dropped = append(c.dropped, int32(id))
		case !wanted && computed[id]:
			c.filled = append(c.filled, int32(id))
		}
	}
	r.Dropped, r.DroppedExperts, r.Filled, r.Shares = c.dropped, len(c.dropped), c.filled, c.shares
}

// difference counts the experts that a row has lost, and their weight, NaN left out.
func difference(before, after *router.Choice) (lost int, removed float64) {
	for j, id := range before.Experts {
		if slices.Contains(after.Experts, id) {
			continue
		}
		lost++
		if w := float64(before.Weights[j]); w == w {
			removed += w
		}
	}
	return lost, removed
}

// lostShare is the share of its mass that a row has lost.
func lostShare(before *router.Choice, lost int, removed float64) float64 {
	mass := total(before.Weights)
	switch {
	case lost == 0:
		return 0
	case usable(mass):
		return min(max(removed/mass, 0), 1)
	}
	return float64(lost) / float64(len(before.Experts))
}

// total adds weights in their order.
func total(weights []float32) (sum float64) {
	for _, w := range weights {
		sum += float64(w)
	}
	return sum
}

// usable says whether shares of a mass have a meaning.
func usable(mass float64) bool { return mass > 0 && mass <= math.MaxFloat64 }

// rescale gives a row the mass that it had, unless one of both has no meaning as a scale.
func rescale(row *router.Choice, mass float64) {
	now := total(row.Weights)
	if factor := mass / now; now > 0 && factor > 0 && factor <= math.MaxFloat64 {
		for j, w := range row.Weights {
			row.Weights[j] = float32(float64(w) * factor)
		}
	}
}
