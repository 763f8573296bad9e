package placement

import (
	"cmp"
	"math"
	"slices"
)

// placeFresh places everything from nothing.
func (p *planner) placeFresh() error {
	for i, l := range p.layers {
		l.wantReplicas(i, nil)
	}
	for i, l := range p.layers {
		for _, e := range l.byWeight() {
			if !l.seat(e, 0, p.quota(i)) && !l.seat(e, 0, p.capacity) {
				return p.tooSmall()
			}
		}
	}
	p.addReplicas()
	for _, l := range p.layers {
		l.improve(nil, 0)
	}
	p.addReplicas() // where moves have made room
	return nil
}

// byWeight lists experts, the heaviest first; ties: the lower id.
func (l *layer) byWeight() []int {
	experts, weights := make([]int, len(l.copies)), make([]float64, len(l.copies))
	for e := range experts {
		experts[e], weights[e] = e, l.weight(e)
	}
	slices.SortStableFunc(experts, func(a, b int) int { return cmp.Compare(weights[b], weights[a]) })
	return experts
}

// quota is what the workers may have used up after layer number i of the list, so that one with little memory has some for each layer.
func (p *planner) quota(i int) []int64 {
	quota := make([]int64, len(p.capacity))
	for w, c := range p.capacity {
		quota[w] = c
		if c != unlimited {
			quota[w] = c / int64(len(p.layers)) * int64(i+1)
		}
	}
	return quota
}

// seat finds owner number copy for all parts of an expert that have no such owner yet: on one host, spread over its workers, where the most loaded of
// them is then least loaded; for a replica, on a host that doesn't own the expert, if there is one. Where no host has room within the limits of what workers may use, parts
// go to different hosts. false: there is no room for all of them; nothing was done.
func (l *layer) seat(e, copy int, limit []int64) bool {
	var best []int
	found := seatOrder{}
	for h, workers := range l.p.hosts {
		if !l.mayFit(e, workers, limit) {
			continue
		}
		seats, order, ok := l.trySeat(e, copy, workers, limit)
		if !ok {
			continue
		}
		order.owns = copy > 0 && l.hostOwns(e, h)
		if best == nil || order.before(found) {
			best, found = seats, order
		}
	}
	if best == nil {
		all := make([]int, len(l.p.workers))
		for w := range all {
			all[w] = w
		}
		seats, _, ok := l.trySeat(e, copy, all, limit)
		if !ok {
			return false
		}
		best = seats
	}
	parts := l.p.model.Parts
	for i, part := range l.missing(e, copy) {
		l.add(e*parts+part, best[i])
	}
	return true
}

// missing lists the parts of an expert that have no owner number copy.
func (l *layer) missing(e, copy int) []int {
	var missing []int
	for part := range l.p.model.Parts {
		if len(l.owners[e*l.p.model.Parts+part]) <= copy {
			missing = append(missing, part)
		}
	}
	return missing
}

// hostOwns says whether a worker of a host owns a part of an expert.
func (l *layer) hostOwns(e, host int) bool {
	for item := e * l.p.model.Parts; item < (e+1)*l.p.model.Parts; item++ {
		for _, w := range l.owners[item] {
			if l.p.hostOf[w] == host {
				return true
			}
		}
	}
	return false
}

// mayFit is a quick no for workers that have no room for anything.
func (l *layer) mayFit(e int, workers []int, limit []int64) bool {
	for _, w := range workers {
		if l.p.used[w] < limit[w] || l.p.model.PartBytes[0] == 0 {
			return true
		}
	}
	return false
}

// seatOrder tells the better of two hosts for an expert.
type seatOrder struct {
	owns  bool    // the host has a copy already
	level float64 // of its most loaded worker of those that take a part, then
	first int     // that takes a part
}

func (a seatOrder) before(b seatOrder) bool {
	if a.owns != b.owns {
		return b.owns
	}
	return cmp.Or(cmp.Compare(a.level, b.level), cmp.Compare(a.first, b.first)) < 0
}

// trySeat finds workers for the missing parts of an expert among some: those with the fewest parts of it, then the least loaded, then the
// first. Nothing is changed.
func (l *layer) trySeat(e, copy int, workers []int, limit []int64) (seats []int, order seatOrder, ok bool) {
	parts, bytes := l.p.model.Parts, l.p.model.PartBytes
	missing := l.missing(e, copy)
	for i, part := range missing {
		item := e*parts + part
		best, fewest, least := -1, 0, 0.0
		for _, w := range workers {
			n, room, ratio := l.partsOn(e, w), limit[w]-l.p.used[w]-bytes[part], l.ratio[part]
			for j, seat := range seats {
				if seat == w {
					n, room, ratio = n+1, room-bytes[missing[j]], ratio+l.ratio[missing[j]]
				}
			}
			if room < 0 || slices.Contains(l.owners[item], int32(w)) || best >= 0 && n > fewest {
				continue
			}
			level := l.levelWith(e, w, ratio)
			if best < 0 || n < fewest || level < least {
				best, fewest, least = w, n, level
			}
		}
		if best < 0 {
			return nil, order, false
		}
		if i == 0 {
			order.first = best
		}
		order.level = max(order.level, least)
		seats = append(seats, best)
	}
	return seats, order, true
}

// partsOn is how many parts of an expert a worker owns.
func (l *layer) partsOn(e, worker int) (n int) {
	for item := e * l.p.model.Parts; item < (e+1)*l.p.model.Parts; item++ {
		if slices.Contains(l.owners[item], int32(worker)) {
			n++
		}
	}
	return n
}

// levelWith is the level that a worker would have with one more part of an expert, of ratio times the average size.
func (l *layer) levelWith(e, worker int, ratio float64) (level float64) {
	sums := l.sums[worker*len(l.p.batches):]
	deviation := 0.0
	if l.shared != nil {
		deviation = math.Sqrt(max(0, l.shared.variance[worker]+l.shared.growth(worker, e, l.amountOf(e, ratio))))
	}
	for b, x := range l.expert(e) {
		with := float64(sums[b] + x.times(ratio))
		if l.shared != nil {
			with += float64(l.shared.scale[b] * deviation)
		}
		level += with / float64(l.p.speed[worker]*l.ideal[b])
	}
	return level
}

// tooSmall is the error of workers that can't hold the model: of the first that the placement would give more than it has, if the capacities didn't
// matter.
func (p *planner) tooSmall() error {
	boundless := slices.Clone(p.workers)
	for i := range boundless {
		boundless[i].Capacity = 0
	}
	o := *p.options
	o.Replicas, o.Previous = 1, nil
	q := newPlanner(p.model, boundless, &o)
	if err := q.placeFresh(); err != nil {
		return err
	}
	var needed, available int64
	known := true
	for i, w := range p.workers {
		needed += q.used[i]
		available += w.Capacity
		known = known && w.Capacity != 0
	}
	if !known {
		available = 0
	}
	worst, excess := 0, int64(-unlimited)
	for i := range p.workers {
		if over := q.used[i] - p.capacity[i]; over > 0 {
			return &CapacityError{p.workers[i].ID, q.used[i], p.capacity[i], needed, available, len(p.workers)}
		} else if over > excess {
			worst, excess = i, over
		}
	}
	// Only slots that can't be divided are in the way.
	return &CapacityError{p.workers[worst].ID, q.used[worst], p.capacity[worst], needed, available, len(p.workers)}
}
