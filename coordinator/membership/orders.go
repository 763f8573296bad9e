package membership

import (
	"errors"
	"fmt"
	"strings"

	"github.com/moepool/moepool/coordinator/placement"
	"github.com/moepool/moepool/transport"
)

// order is what a worker is to be told now: to leave, or the next plan that it has to prepare. The active plan comes before the pending
// one, so that a restarted worker serves again first.
func (t *table) order(worker string) []action {
	m := t.members[worker]
	if m.lost != "" {
		return nil
	}
	if m.draining && !t.planned(worker) {
		if m.drainWait > 0 {
			return nil
		}
		m.drainWait = repeatTicks
		return []action{{kind: actDrain, worker: worker, instance: m.beat.Instance}}
	}
	if m.waiting > 0 || m.unfit != "" {
		return nil
	}
	plan := t.unprepared(m)
	if plan == nil {
		return nil
	}
	m.waiting = repeatTicks
	return []action{{kind: actAssign, worker: worker, instance: m.beat.Instance, plan: plan}}
}

// unprepared is the plan that a worker should be told of, nil if there is none.
func (t *table) unprepared(m *member) *placement.Plan {
	b := &m.beat
	ours := t.ours(m)
	wanted := []*placement.Plan{t.active}
	if t.pending != nil {
		wanted = append(wanted, t.pending.plan)
	}
	for _, plan := range wanted {
		switch {
		case !names(plan, b.Worker) || t.holds(m, plan.Epoch):
		case ours && b.Epoch > plan.Epoch: // a later one was given up; this one can't be assigned any more
		case ours && b.Epoch == plan.Epoch && b.State == transport.StateLoading:
			return nil
		default:
			return plan
		}
	}
	return nil
}

// deny notes that a worker doesn't take the assignment of a plan.
func (t *table) deny(worker, instance string, plan *placement.Plan, why string) []action {
	m := t.members[worker]
	if m == nil || m.lost != "" || m.beat.Instance != instance || t.unprepared(m) != plan {
		return nil // an old one
	}
	m.unable(why)
	t.failures[worker] = why
	return t.decide()
}

// await sets how many workers the first plan waits for.
func (t *table) await(n int) []action {
	t.minimum = n
	return t.decide()
}

// uncovered notes that somebody waits for expert parts that no usable worker owns.
func (t *table) uncovered() []action {
	t.urgent = true
	return t.decide()
}

// drain takes a worker out of the placement; it is told to leave when no plan needs it.
func (t *table) drain(worker string) ([]action, error) {
	m := t.members[worker]
	if m == nil || m.lost != "" {
		return nil, fmt.Errorf("there is no worker %q; there are: %s", worker, orNone(t.alive()))
	}
	others := 0
	for id, other := range t.members {
		if id != worker && t.candidate(other) {
			others++
		}
	}
	if others == 0 && t.planned(worker) {
		return nil, fmt.Errorf("worker %s can't leave: no other worker can take its experts", worker)
	}
	if m.draining {
		return nil, nil
	}
	m.draining, t.blocked = true, ""
	out := []action{{kind: actLog, event: EventDraining, worker: worker, instance: m.beat.Instance, reason: "is asked to leave"}}
	return append(out, t.decide()...), nil
}

// askRebalance asks for a plan that is made anew.
func (t *table) askRebalance() ([]action, error) {
	if t.active == nil {
		return nil, errors.New("there is no placement yet: the workers are not ready")
	}
	t.rebalance, t.blocked = true, ""
	return t.decide(), nil
}

func orNone(ids []string) string {
	if len(ids) == 0 {
		return "none"
	}
	return strings.Join(ids, ", ")
}
