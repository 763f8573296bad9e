package membership

import (
	"errors"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strings"

	"github.com/moepool/moepool/coordinator/placement"
	"github.com/moepool/moepool/transport"
)

// ErrPlanRefused is what Options.Commit returns (wrapped) of a plan that will never be taken: it is given up and another one is made. Any
// other error lets the same plan be asked for again.
var ErrPlanRefused = errors.New("the placement is refused")

// Times, in ticks.
const (
	settleTicks    = 2 * ticksPerSecond  // a worker that has joined is there for so long before experts move to it
	gatherTicks    = 10 * ticksPerSecond // for so long it waits for others that have just joined, too
	uncoveredGrace = 2 * ticksPerSecond  // for so long a lost worker may come back when nobody else has its experts
	coveredGrace   = 30 * ticksPerSecond // and when all of them have replicas
	unseenGrace    = 10 * ticksPerSecond // for so long the workers of a former leader's plan may take to be seen
	commitTicks    = 2 * ticksPerSecond  // between two commits of one plan
	blockedTicks   = 60 * ticksPerSecond // a placement that was not possible is tried again, as workers' sizes may have changed
	maxSettleShift = 5                   // a worker that is lost again and again must stay for 2^5 times as long
)

// plans are the active plan and the one that is prepared.
type plans struct {
	inMemory bool // plans must fit into the workers' memory
	minimum  int  // workers that the first plan waits for; 0: nobody has asked for one yet

	active, previous *placement.Plan
	pending          *pending
	epoch            uint64 // the highest that was given to a plan

	rebalance bool   // asked for
	urgent    bool   // somebody waits for uncovered expert parts
	hold      int    // ticks until the next plan may be begun
	blocked   string // the plan that was not possible
	unblock   int    // ticks until it is tried again
	problem   error  // why it was not

	moved   bool      // the active plan, or whether a worker can be used, has changed
	covered *coverage // of the active plan; nil after a change
}

// phase is how far a pending plan is.
type phase uint8

const (
	computing  phase = iota // not there yet
	preparing               // its workers load
	committing              // all serve it; whether it may become active is asked
)

// pending is a plan on its way. It never changes once computed.
type pending struct {
	phase   phase
	why     why
	reason  string
	epoch   uint64
	workers []placement.Worker
	before  *placement.Plan // the active one when it was begun
	plan    *placement.Plan // nil while it is computed
	retry   int             // ticks until it is committed again
	said    string          // what the last commit failed with
}

// why is what a plan is made for, the most urgent first.
type why uint8

const (
	nothing why = iota
	start
	loss    // a worker of the active plan is lost, leaves or has failed
	ask     // Rebalance
	arrival // a worker has joined
)

// names says whether a plan gives a worker something; nil names none.
func names(p *placement.Plan, worker string) bool {
	if p == nil {
		return false
	}
	_, ok := p.Owned[worker]
	return ok
}

// planned says whether the active plan or the pending one needs a worker.
func (t *table) planned(worker string) bool {
	return names(t.active, worker) || t.pending != nil && names(t.pending.plan, worker)
}

// pass is a tick of the plans' own times.
func (t *table) pass() {
	t.hold = max(0, t.hold-1)
	if t.unblock = max(0, t.unblock-1); t.unblock == 0 {
		t.blocked = ""
	}
	if p := t.pending; p != nil {
		p.retry = max(0, p.retry-1)
	}
}

// decide is what follows from the present state: a plan is begun, given up or committed; assignments and drains are sent.
func (t *table) decide() []action {
	var out []action
	t.urgent = t.urgent && t.coverage().parts > 0
	if p := t.pending; p != nil && p.phase == preparing {
		if why := t.obsolete(p); why != "" {
			out = append(out, t.giveUp(why)...)
		} else if p.retry == 0 && t.complete(p.plan) {
			p.phase = committing
			out = append(out, action{kind: actCommit, pending: p})
		}
	}
	if t.pending == nil {
		out = append(out, t.begin()...)
	}
	for _, worker := range slices.Sorted(maps.Keys(t.members)) {
		out = append(out, t.order(worker)...)
	}
	return out
}

// begin begins a plan if one is wanted.
func (t *table) begin() []action {
	if t.hold > 0 {
		return nil
	}
	kind, reason := t.wanted()
	if kind == nothing {
		return nil
	}
	p := &pending{why: kind, reason: reason, epoch: t.epoch + 1, workers: t.candidates(), before: t.active}
	if p.key() == t.blocked {
		return nil
	}
	t.pending = p
	return []action{{kind: actCompute, pending: p}}
}

// key tells plans apart that are possible or not.
func (p *pending) key() string {
	key := fmt.Sprint(p.why)
	for i := range p.workers {
		key += " " + p.workers[i].ID
	}
	return key
}

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
	case m.denied != "":
		return "worker " + worker + " " + m.denied
	case m.beat.State == transport.StateFailed:
		return "worker " + worker + " failed: " + m.beat.Error
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
		if m.present < settleTicks<<min(m.losses, maxSettleShift) {
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

// candidate says whether a plan may give a worker something.
func (t *table) candidate(m *member) bool {
	return m.lost == "" && !m.draining && m.denied == "" && m.beat.State != transport.StateFailed
}

// candidates are the workers that the next plan is over, in order of their ids. Those that are lost again and again have to settle first.
func (t *table) candidates() []placement.Worker {
	var workers []placement.Worker
	for _, id := range slices.Sorted(maps.Keys(t.members)) {
		m := t.members[id]
		if !t.candidate(m) || m.losses > 0 && t.active != nil && !names(t.active, id) && m.present < settleTicks<<min(m.losses, maxSettleShift) {
			continue
		}
		b := &m.beat
		w := placement.Worker{ID: id, Host: b.Host, Node: b.Node, Bandwidth: bandwidth(b)}
		if t.inMemory {
			w.Capacity = b.Capacity
		}
		workers = append(workers, w)
	}
	return workers
}

// computed takes a plan, or why there is none.
func (t *table) computed(p *pending, plan *placement.Plan, err error) []action {
	if t.pending != p || p.phase != computing {
		return nil
	}
	if p.why == ask {
		t.rebalance = false
	}
	if err != nil {
		said := t.problem != nil && t.problem.Error() == err.Error()
		t.pending, t.blocked, t.unblock, t.problem = nil, p.key(), blockedTicks, err
		if said {
			return nil
		}
		return []action{{kind: actLog, event: EventPlan, reason: fmt.Sprintf("no new placement (%s): %v", p.reason, err)}}
	}
	t.blocked, t.problem = "", nil
	if t.active != nil && reflect.DeepEqual(plan.Owned, t.active.Owned) && reflect.DeepEqual(plan.Owners, t.active.Owners) {
		t.pending = nil
		return append([]action{{kind: actLog, event: EventPlan, reason: fmt.Sprintf("the placement stays as it is (%s)", p.reason)}}, t.decide()...)
	}
	t.epoch, t.urgent = plan.Epoch, false
	p.phase, p.plan = preparing, plan
	for id := range plan.Owned {
		if m := t.members[id]; m != nil {
			m.waiting = 0
		}
	}
	return append([]action{{kind: actLog, event: EventPlan, plan: plan, pending: p, reason: p.reason}}, t.decide()...)
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
		case m.lost == "" && m.denied != "":
			return "worker " + worker + " " + m.denied
		case m.lost == "" && m.beat.State == transport.StateFailed:
			return "worker " + worker + " failed: " + m.beat.Error
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

// complete says whether every worker of a plan serves it.
func (t *table) complete(plan *placement.Plan) bool {
	for worker := range plan.Owned {
		if m := t.members[worker]; m == nil || !t.holds(m, plan.Epoch) {
			return false
		}
	}
	return true
}

func (t *table) giveUp(why string) []action {
	p := t.pending
	t.pending = nil
	return []action{{kind: actLog, event: EventGivenUp, plan: p.plan, reason: why}}
}

// committed takes the answer to actCommit.
func (t *table) committed(p *pending, err error) []action {
	if t.pending != p || p.phase != committing {
		return nil
	}
	switch {
	case err == nil:
		return t.activate(p)
	case errors.Is(err, ErrPlanRefused):
		t.hold = commitTicks
		return append(t.giveUp(err.Error()), t.decide()...)
	}
	p.phase, p.retry = preparing, commitTicks
	var out []action
	if p.said != err.Error() {
		p.said = err.Error()
		out = append(out, action{kind: actLog, event: EventCommit, plan: p.plan, reason: p.said})
	}
	return append(out, t.decide()...)
}

// activate makes a plan the active one.
func (t *table) activate(p *pending) []action {
	t.previous, t.active, t.pending = t.active, p.plan, nil
	t.moved, t.covered = true, nil
	for worker := range t.members {
		t.look(worker)
	}
	return append([]action{{kind: actActivate, event: EventActive, plan: p.plan, pending: p, reason: p.reason}}, t.decide()...)
}

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
	if m.waiting > 0 || m.denied != "" || m.beat.State == transport.StateFailed {
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
	ours := b.Coordinator == t.instance && b.Term == t.term
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
	m.denied, t.failures[worker] = why, why
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
