package membership

import (
	"errors"
	"fmt"
	"maps"
	"slices"

	"github.com/moepool/moepool/coordinator/placement"
)

// ErrPlanRefused is what Options.Commit returns (wrapped) of a plan that will never be taken: it is given up and another one is made. Any
// other error lets the same plan be asked for again.
var ErrPlanRefused = errors.New("the placement is refused")

// Times, in ticks.
const (
	commitTicks  = 2 * ticksPerSecond  // between two commits of one plan
	blockedTicks = 60 * ticksPerSecond // a placement that was not possible is tried again, as workers' sizes may have changed
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

	altered bool      // the active plan, or whether a worker can be used, has changed
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
		if t.active != nil {
			t.problem = nil
		}
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
	if p.why == ask && plan.Same(t.active) {
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
	t.altered, t.covered = true, nil
	for worker := range t.members {
		t.look(worker)
	}
	return append([]action{{kind: actActivate, event: EventActive, plan: p.plan, pending: p, reason: p.reason}}, t.decide()...)
}
