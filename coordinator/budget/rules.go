package budget

import (
	"cmp"
	"slices"
)

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

// topP leaves each governed row the smallest set of its experts whose share reaches TopP.
func (c *Cutter) topP() {
	for i := range c.Rows {
		if !c.governed(i) {
			continue
		}
		row := &c.Rows[i]
		c.order = c.order[:0]
		for j := range row.Experts {
			c.order = append(c.order, int32(j))
		}
		slices.SortFunc(c.order, func(a, b int32) int { return compare(row.Weights[a], row.Weights[b], row.Experts[a], row.Experts[b]) })
		mass := 0.0 // in the order of the sums below, so that all experts reach it exactly
		for _, j := range c.order {
			mass += float64(row.Weights[j])
		}
		if !usable(mass) {
			continue
		}
		sum, n := 0.0, 0
		for n < len(c.order) && (n == 0 || sum < c.policy.TopP*mass) {
			sum += float64(row.Weights[c.order[n]])
			n++
		}
		for _, j := range c.order[n:] {
			row.Experts[j] = -1 - row.Experts[j] // to be taken out
		}
		keepOnly(row, func(id int32) bool { return id >= 0 })
	}
}

// dropMisses takes misses out of the kept set.
func (c *Cutter) dropMisses() {
	if c.policy.Mass <= 0 && c.policy.Count <= 0 && c.policy.Bytes <= 0 {
		return
	}
	c.misses = c.misses[:0]
	for _, id := range c.union {
		if !c.present[id] && !c.Resident(id) {
			c.misses = append(c.misses, id)
		}
	}
	slices.SortFunc(c.misses, func(a, b int32) int { return compare(c.mass[a], c.mass[b], a, b) })
	hits, wanted := len(c.union)-len(c.misses), len(c.union)
	if c.policy.Mass > 0 {
		wanted -= c.dropLight()
	}
	room := len(c.misses)
	if c.policy.Count > 0 && wanted > c.policy.Count {
		room = max(0, c.policy.Count-hits)
	}
	c.read = c.read[:0]
	for _, id := range c.misses {
		if !c.keep[id] {
			continue
		}
		if c.keep[id] = room > 0 && c.reads(id); c.keep[id] {
			room--
		}
	}
}

// dropLight drops the misses that all rows can do without, and gives their number.
func (c *Cutter) dropLight() (dropped int) {
	c.most, c.lost = c.most[:0], zeroed(c.lost, len(c.Rows))
	next := 0
	for i := range c.Rows {
		most := 0.0
		if c.governed(i) {
			if mass := total(c.original[next].Weights); usable(mass) {
				most = c.policy.Mass * mass
			}
			next++
		}
		c.most = append(c.most, most)
	}
	for _, id := range slices.Backward(c.misses) {
		if c.light(id) {
			c.lose(id)
			dropped++
		}
	}
	return dropped
}

// light says whether each governed row can do without an expert.
func (c *Cutter) light(id int32) bool {
	for i := range c.Rows {
		if at := c.wants(i, id); at >= 0 {
			weight := float64(c.Rows[i].Weights[at])
			if !(weight < c.most[i] && c.lost[i]+weight <= c.most[i]) {
				return false
			}
		}
	}
	return true
}

// lose drops an expert that is light.
func (c *Cutter) lose(id int32) {
	c.keep[id] = false
	for i := range c.Rows {
		if at := c.wants(i, id); at >= 0 {
			c.lost[i] += float64(c.Rows[i].Weights[at])
		}
	}
}

// wants is where an expert is in a governed row, -1: nowhere.
func (c *Cutter) wants(row int, id int32) int {
	if !c.governed(row) {
		return -1
	}
	return slices.Index(c.Rows[row].Experts, id)
}

// reads says whether all workers may read what is missing of an expert, and then counts it as read.
func (c *Cutter) reads(id int32) bool {
	if c.policy.Bytes <= 0 {
		return true
	}
	if c.cost == nil { // once, not for each expert
		c.cost = func(worker int, bytes int64) { c.costs = append(c.costs, cost{worker, bytes}) }
	}
	c.costs = c.costs[:0]
	c.Missing(id, c.cost)
	fits := true
	for _, k := range c.costs {
		for len(c.read) <= k.worker {
			c.read = append(c.read, 0)
		}
		c.read[k.worker] += k.bytes
		fits = fits && c.read[k.worker] <= c.policy.Bytes
	}
	for _, k := range c.costs {
		if !fits {
			c.read[k.worker] -= k.bytes
		}
	}
	return fits
}

// cost is what a worker would read of an expert.
type cost struct {
	worker int
	bytes  int64
}

// fill lets the governed rows that lost experts take what is computed or in memory anyway from their best.
func (c *Cutter) fill() {
	next := 0
	for i := range c.Rows {
		if !c.governed(i) {
			continue
		}
		row, candidates, original := &c.Rows[i], &c.Candidates[i], &c.original[next]
		lost := len(original.Experts) - len(row.Experts)
		next++
		taken := false
		for j, id := range candidates.Experts {
			if lost == 0 {
				break
			}
			weight := candidates.Weights[j]
			if !(weight > 0) || slices.Contains(row.Experts, id) || !c.free(id) {
				continue
			}
			if own := slices.Index(original.Experts, id); own >= 0 {
				weight = original.Weights[own] // as if it had never been taken away
			}
			row.Experts, row.Weights = append(row.Experts, id), append(row.Weights, weight)
			lost--
			taken = true
		}
		if taken {
			row.SortByID()
		}
	}
}

// free says whether nothing has to be read for an expert because a row takes it.
func (c *Cutter) free(id int32) bool { return c.keep[id] || c.present[id] || c.Resident(id) }
