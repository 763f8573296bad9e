package placement

import "slices"

// keep places by a plan so far and moves as little as it can:
//
//  1. Every owner that is still there stays, in the same order: where the primary is gone, its first replica is the primary now, and nothing moves. Of
//     copies beyond those that an expert shall have, the last go.
//  2. Of workers that have less memory than before, the last copies go first, then items from the highest number on.
//  3. Items without an owner go to the least loaded workers; missing replicas are placed as in a fresh placement.
//  4. A layer whose slowest worker is then expected to take more than 1 + Tolerance times as long as in a fresh placement gets moves and exchanges,
//     the most useful first, until it isn't, or until none helps. If a worker has gone, the tolerance is LossTolerance at least. A worker that the plan so far doesn't have gets moves until it has half of
//     the load of a fresh placement, even where they help less.
//
// fresh is such a placement. false: there is no room for what lost its owner.
func (p *planner) keep(previous *Plan, fresh *planner) bool {
	numbers := make(map[string]int, len(p.workers))
	for i, w := range p.workers {
		numbers[w.ID] = i
		_, had := previous.Owned[w.ID]
		p.joined[i] = !had
	}
	for id := range previous.Owned {
		if _, ok := numbers[id]; !ok {
			p.tolerance = max(p.tolerance, LossTolerance)
		}
	}
	for i, l := range p.layers {
		owners := make([][]int32, len(l.owners))
		for item, ids := range previous.Owners[l.number] {
			for _, id := range ids {
				if w, ok := numbers[id]; ok {
					owners[item] = append(owners[item], int32(w))
				}
			}
		}
		l.wantReplicas(i, func(e int) int { return fewestOwners(owners, e, p.model.Parts) })
		for item, workers := range owners {
			for _, w := range workers[:min(len(workers), l.copies[item/p.model.Parts])] {
				l.add(item, int(w))
			}
		}
	}
	for w := range p.workers {
		p.shrink(w)
	}
	for _, l := range p.layers {
		for _, e := range l.byWeight() {
			if !l.adopt(e) {
				return false
			}
		}
	}
	p.addReplicas()
	for range 2 { // the second time with the replicas that moves made room for
		for i, l := range p.layers {
			l.improve(fresh.layers[i], p.tolerance)
		}
		p.addReplicas()
	}
	return true
}

// fewestOwners is how many owners each part of an expert has at least.
func fewestOwners(owners [][]int32, e, parts int) int {
	n := len(owners[e*parts])
	for _, workers := range owners[e*parts : (e+1)*parts] {
		n = min(n, len(workers))
	}
	return n
}

// shrink takes from a worker what it has no memory for any more.
func (p *planner) shrink(w int) {
	for _, replicas := range []bool{true, false} {
		for item := p.model.Experts*p.model.Parts - 1; item >= 0; item-- {
			for _, l := range p.layers {
				if p.used[w] <= p.capacity[w] {
					return
				}
				at := slices.Index(l.owners[item], int32(w))
				if at >= 0 && (at > 0 || len(l.owners[item]) > 1 || !replicas) {
					l.remove(item, w)
				}
			}
		}
	}
}

// adopt gives the parts of an expert that have no owner to the least loaded workers with room. Where several are equally loaded, to one of a host that
// owns other parts of it. Where nobody has room, a replica makes some.
func (l *layer) adopt(e int) bool {
	parts := l.p.model.Parts
	for _, part := range l.missing(e, 0) {
		item := e*parts + part
		w := l.leastLoaded(item)
		if w < 0 && (l.p.dropReplica([]*layer{l}, l.p.model.PartBytes[part]) || l.p.dropReplica(l.p.layers, l.p.model.PartBytes[part])) {
			w = l.leastLoaded(item)
		}
		if w < 0 {
			return false
		}
		l.add(item, w)
	}
	return true
}

// leastLoaded finds an owner for an item; -1 if nobody has room.
func (l *layer) leastLoaded(item int) int {
	e, part := item/l.p.model.Parts, item%l.p.model.Parts
	best, least, near := -1, 0.0, false
	for w, limit := range l.p.capacity {
		if l.p.used[w]+l.p.model.PartBytes[part] > limit {
			continue
		}
		level, same := l.levelWith(e, w, l.ratio[part]), l.hostOwns(e, l.p.hostOf[w])
		if best < 0 || level < least || level == least && same && !near {
			best, least, near = w, level, same
		}
	}
	return best
}

// dropReplica gives up the replica with the least load that makes room for some bytes on its worker.
func (p *planner) dropReplica(layers []*layer, bytes int64) bool {
	var from *layer
	dropped, owner, least := 0, 0, 0.0
	for _, l := range layers {
		for item, owners := range l.owners {
			if len(owners) < 2 {
				continue
			}
			weight := l.weight(item / p.model.Parts)
			if from != nil && weight >= least {
				continue
			}
			for at := len(owners) - 1; at >= 0; at-- {
				if w := owners[at]; p.used[w]-p.model.PartBytes[item%p.model.Parts]+bytes <= p.capacity[w] {
					from, dropped, owner, least = l, item, int(w), weight
					break
				}
			}
		}
	}
	if from == nil {
		return false
	}
	from.remove(dropped, owner)
	return true
}
