package placement

import (
	"cmp"
	"slices"
)

const (
	leastGain = 1e-3 // of the penalty, for a part that moves
	targets   = 3    // least loaded workers that are tried
	maxTrials = 30000
)

// move gives owner number at of an item to another worker.
type move struct {
	item, at int
	from, to int
}

// improve moves expert parts off the worker with the highest penalty to less loaded ones, or exchanges them, always what lowers the sum of penalties most for each part
// that moves, until nothing helps any more. With another placement to compare with, it ends before that as soon as the slowest worker takes no more than 1 + tolerance times
// what it takes there, and no worker that has just joined has less than half of the load that it has there: it gets work even where that changes little.
func (l *layer) improve(fresh *layer, tolerance float64) {
	full := make([]bool, len(l.p.workers)) // nothing can be given to
	// Each step lowers the sum of penalties, so there is an end; the bound is for time.
	for step := 0; step < len(l.owners)+len(l.p.workers) && l.trials < maxTrials; step++ {
		if fresh == nil || l.slowestWorker() > (1+tolerance)*fresh.slowestWorker() {
			if !l.improveOnce(l.leastPenalties(targets)) {
				return
			}
			continue
		}
		idle := -1
		for w, level := range l.level {
			if l.p.joined[w] && !full[w] && level < fresh.level[w]/2 {
				idle = w
				break
			}
		}
		if idle < 0 {
			return
		}
		full[idle] = !l.improveOnce([]int{idle})
	}
}

// leastPenalties lists the n workers with the least penalties.
func (l *layer) leastPenalties(n int) []int {
	order := make([]int, len(l.penalty))
	for w := range order {
		order[w] = w
	}
	slices.SortStableFunc(order, func(a, b int) int { return cmp.Compare(l.penalty[a], l.penalty[b]) })
	return order[:min(n, len(order))]
}

// improveOnce makes the best change between the worker with the highest penalty and some others; false: none helps.
func (l *layer) improveOnce(others []int) bool {
	worst, total := 0, 0.0
	for w, x := range l.penalty {
		total += x
		if x > l.penalty[worst] {
			worst = w
		}
	}
	search := &search{layer: l, least: leastGain * total}
	for _, w := range others {
		if w != worst {
			search.between(worst, w)
		}
	}
	l.trials += search.trials
	if len(search.best) == 0 {
		return false
	}
	l.apply(search.best)
	return true
}

// apply makes moves.
func (l *layer) apply(moves []move) {
	for _, m := range moves {
		l.remove(m.item, m.from)
		l.insert(m.item, m.to, m.at)
	}
}

// possible says whether moves, of different items, can be made: not if a worker has the part already or no memory for it, or if two owners that were on two
// hosts would be on one.
func (l *layer) possible(moves []move) bool {
	for _, m := range moves {
		if slices.Contains(l.owners[m.item], int32(m.to)) || l.together(m.item, m.from, m.to) && !l.together(m.item, m.from, m.from) {
			return false
		}
		if l.p.capacity[m.to] == unlimited {
			continue
		}
		used := l.p.used[m.to]
		for _, other := range moves {
			bytes := l.p.model.PartBytes[other.item%l.p.model.Parts]
			if other.to == m.to {
				used += bytes
			}
			if other.from == m.to {
				used -= bytes
			}
		}
		if used > l.p.capacity[m.to] {
			return false
		}
	}
	return true
}

// together says whether an owner of an item, but for one, is on a worker's host.
func (l *layer) together(item, but, worker int) bool {
	for _, w := range l.owners[item] {
		if int(w) != but && l.p.hostOf[w] == l.p.hostOf[worker] {
			return true
		}
	}
	return false
}

// search is one look for the best change between two workers.
type search struct {
	*layer
	least float64 // a change must lower the sum of penalties by more than this for each part that it moves
	best  []move
	gain  float64 // for each part

	trials  int
	touched []int
	sums    []load
}

// between tries changes that take load from one worker to another.
func (s *search) between(from, to int) {
	there := s.itemsOf(to)
	gap := s.level[from] - s.level[to]
	for _, item := range s.itemsOf(from) {
		away := s.group(item, from, to)
		if away == nil {
			continue
		}
		s.try(away)
		// In exchange for what leaves the two with about the same level.
		want := s.weight(item/s.p.model.Parts) - gap/2
		for _, back := range s.nearest(there, want) {
			if back/s.p.model.Parts == item/s.p.model.Parts {
				continue
			}
			if group := s.group(back, to, from); group != nil {
				s.try(append(slices.Clone(away), group...))
			}
		}
	}
}

// itemsOf lists a worker's items of this layer.
func (l *layer) itemsOf(worker int) (items []int) {
	for item, owners := range l.owners {
		if slices.Contains(owners, int32(worker)) {
			items = append(items, item)
		}
	}
	return items
}

// nearest lists the two items whose weights are nearest to one.
func (l *layer) nearest(items []int, want float64) []int {
	var best [2]int
	var distances [2]float64
	n := 0
	for _, item := range items {
		d := l.weight(item/l.p.model.Parts) - want
		if d < 0 {
			d = -d
		}
		switch {
		case n == 0 || d < distances[0]:
			best[1], distances[1] = best[0], distances[0]
			best[0], distances[0] = item, d
			n = min(n+1, 2)
		case n == 1 || d < distances[1]:
			best[1], distances[1] = item, d
			n = 2
		}
	}
	return best[:n]
}

// group is what has to move if an item leaves a worker for another one: on the same host the item alone, else the item and the other parts of its expert whose
// owners of the same rank are on the same host. On the new host they are spread over its workers. nil: they can't be there.
func (l *layer) group(item, from, to int) []move {
	at := slices.Index(l.owners[item], int32(from))
	if l.p.hostOf[from] == l.p.hostOf[to] {
		if slices.Contains(l.owners[item], int32(to)) {
			return nil
		}
		return []move{{item, at, from, to}}
	}
	e, host := item/l.p.model.Parts, l.p.hosts[l.p.hostOf[to]]
	moves := make([]move, 0, l.p.model.Parts)
	first := slices.Index(host, to)
	for other := e * l.p.model.Parts; other < (e+1)*l.p.model.Parts; other++ {
		if at >= len(l.owners[other]) || l.p.hostOf[l.owners[other][at]] != l.p.hostOf[from] {
			continue
		}
		// The item itself goes to the worker that was asked for.
		seat := host[((other-item+first)%len(host)+len(host))%len(host)]
		if slices.Contains(l.owners[other], int32(seat)) {
			return nil
		}
		moves = append(moves, move{other, at, int(l.owners[other][at]), seat})
	}
	return moves
}

// try keeps a change if it is the best one so far.
func (s *search) try(moves []move) {
	s.trials++
	if !s.possible(moves) {
		return
	}
	gain := 0.0
	s.touched = s.touched[:0]
	for _, m := range moves {
		for _, w := range [2]int{m.from, m.to} {
			if !slices.Contains(s.touched, w) {
				s.touched = append(s.touched, w)
				gain += s.penalty[w] - s.penaltyAfter(w, moves)
			}
		}
	}
	gain /= float64(len(moves))
	if gain > s.least && gain > s.gain {
		s.best, s.gain = append(s.best[:0], moves...), gain
	}
}

// penaltyAfter is the penalty of a worker after moves.
func (s *search) penaltyAfter(w int, moves []move) float64 {
	n, parts := len(s.p.batches), s.p.model.Parts
	s.sums = append(s.sums[:0], s.layer.sums[w*n:(w+1)*n]...)
	variance := 0.0
	if s.shared != nil {
		variance = s.shared.variance[w]
	}
	for i, m := range moves {
		sign := m.sign(w)
		if sign == 0 {
			continue
		}
		e := m.item / parts
		for b, x := range s.expert(e) {
			s.sums[b] += load(sign) * x.times(s.ratio[m.item%parts])
		}
		if s.shared == nil {
			continue
		}
		amount := float64(sign) * s.amount(m.item)
		variance += s.shared.growth(w, e, amount)
		for _, other := range moves[:i] {
			if sign := other.sign(w); sign != 0 {
				both := float64(amount * float64(float64(sign)*s.amount(other.item)))
				variance += float64(2 * both * s.shared.covariance[e*s.shared.experts+other.item/parts])
			}
		}
	}
	_, penalty := s.judge(w, s.sums, variance)
	return penalty
}

// sign is 1 if a worker gets the item, -1 if it loses it, else 0.
func (m move) sign(worker int) int {
	switch worker {
	case m.to:
		return 1
	case m.from:
		return -1
	}
	return 0
}
