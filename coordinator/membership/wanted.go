package membership

import (
	"maps"
	"slices"
	"strings"

	"github.com/moepool/moepool/coordinator/placement"
)

// Times, in ticks.
const (
	settleTicks    = 2 * ticksPerSecond  // a worker that has joined is there for so long before experts move to it
	gatherTicks    = 10 * ticksPerSecond // for so long it waits for others that have just joined, too
	uncoveredGrace = 2 * ticksPerSecond  // for so long a lost worker may come back when nobody else has its experts
	coveredGrace   = 30 * ticksPerSecond // and when all of them have replicas
	unseenGrace    = 10 * ticksPerSecond // for so long the workers of a former leader's plan may take to be seen
	maxShift       = 5                   // a worker that is lost, or unfit, again and again waits for 2^5 times as long
)

// why is what a plan is made for, the most urgent first.
type why uint8

const (
	nothing why = iota
	start
	loss    // a worker of the active plan is lost, leaves or has failed
	ask     // Rebalance
	arrival // a worker has joined
)

// wanted says what a plan is needed for.
func (t *table) wanted() (why, string) {
	if t.active == nil {
		if n := len(t.candidates()); t.minimum > 0 && n >= t.minimum {
			return start, "the start"
		}
		return nothing, ""
	}
	away, absent := "", false
	for _, worker := range slices.Sorted(maps.Keys(t.active.Owned)) {
		m := t.members[worker]
		absent = absent || m == nil || m.lost != ""
		if why := t.departed(worker, m); why != "" && away == "" {
			away = why
		}
	}
	switch {
	case away != "":
		return loss, away
	case absent: // it may come back
		return nothing, ""
	case t.rebalance:
		return ask, "a rebalance was asked for"
	}
	if joined := t.joined(); len(joined) > 0 {
		return arrival, "joined: " + strings.Join(joined, ", ")
	}
	return nothing, ""
}

// departed says why a worker of the active plan must not stay in it; "" if it may.
func (t *table) departed(worker string, m *member) string {
	switch {
	case m == nil:
		return "worker " + worker + " is gone"
	case m.lost != "":
		if m.lostFor >= t.grace(worker, m) {
			return "worker " + worker + " is lost: " + m.lost
		}
	case m.draining:
		return "worker " + worker + " leaves"
	case m.unfit != "":
		return "worker " + worker + " " + m.unfit
	case t.ours(m) && m.beat.Epoch > t.active.Epoch && !t.holds(m, t.active.Epoch):
		return "worker " + worker + " can't serve the active placement any more" // nor be assigned it: it has got a later one
	}
	return ""
}

// grace is for how many ticks a lost worker is waited for.
func (t *table) grace(worker string, m *member) int {
	missing := t.coverage().missing[worker]
	switch {
	case missing && (t.urgent || m.dead):
		return 0
	case m.unseen:
		return unseenGrace
	case missing || m.dead || m.draining:
		return uncoveredGrace
	}
	return coveredGrace
}

// joined lists the workers that the active plan doesn't name and that have been there for long enough; none while others have just come.
func (t *table) joined() []string {
	var ids []string
	fresh, longest := false, 0
	for id, m := range t.members {
		if names(t.active, id) || !t.candidate(m) {
			continue
		}
		if !settled(m) {
			fresh = fresh || m.losses == 0
			continue
		}
		ids, longest = append(ids, id), max(longest, m.present)
	}
	if fresh && longest < gatherTicks {
		return nil
	}
	slices.Sort(ids)
	return ids
}

// settled says whether a worker has been there for long enough to move experts to it.
func settled(m *member) bool { return m.present >= settleTicks<<min(m.losses, maxShift) }

// candidate says whether a plan may give a worker something.
func (t *table) candidate(m *member) bool {
	return m.lost == "" && !m.draining && m.unfit == ""
}

// candidates are the workers that the next plan is over, in order of their ids. Those that are lost again and again have to settle first.
func (t *table) candidates() []placement.Worker {
	var workers []placement.Worker
	for _, id := range slices.Sorted(maps.Keys(t.members)) {
		m := t.members[id]
		if !t.candidate(m) || m.losses > 0 && t.active != nil && !names(t.active, id) && !settled(m) {
			continue
		}
		b := &m.beat
		w := placement.Worker{ID: id, Host: b.Host, Node: b.Node, Bandwidth: bandwidth(b)}
		if t.inMemory {
			w.Capacity = b.Capacity
		}
		workers = append(workers, w)
	}
	// The first plan depends on nothing that changes, so that a coordinator that starts again gives each worker what it has already.
	if t.active == nil || alike(workers) {
		for i := range workers {
			workers[i].Bandwidth = 0
		}
	}
	return workers
}

// alike says whether no worker is known to be faster than another one: what is measured differs a little between equal ones, too.
func alike(workers []placement.Worker) bool {
	slowest, fastest := 0.0, 0.0
	for i := range workers {
		if b := workers[i].Bandwidth; b > 0 {
			if slowest == 0 || b < slowest {
				slowest = b
			}
			fastest = max(fastest, b)
		}
	}
	return fastest <= 1.25*slowest
}

// obsolete says why a plan that is prepared can't or need not become active.
func (t *table) obsolete(p *pending) string {
	for _, worker := range slices.Sorted(maps.Keys(p.plan.Owned)) {
		m := t.members[worker]
		switch {
		case m == nil:
			return "worker " + worker + " is gone"
		case m.lost != "" && (m.dead || t.urgent || m.lostFor >= uncoveredGrace):
			return "worker " + worker + " is lost: " + m.lost
		case m.lost == "" && m.draining:
			return "worker " + worker + " leaves"
		case m.lost == "" && m.unfit != "":
			return "worker " + worker + " " + m.unfit
		}
	}
	if p.why == loss && t.sound() {
		return "all workers of the active one are back"
	}
	return ""
}

// sound says whether all workers of the active plan can be used and none leaves.
func (t *table) sound() bool {
	for worker := range t.active.Owned {
		if m := t.members[worker]; m == nil || !t.can(m) || !t.candidate(m) {
			return false
		}
	}
	return true
}
