package membership

import (
	"errors"
	"fmt"
	"maps"
	"slices"

	"github.com/moepool/moepool/coordinator/placement"
	"github.com/moepool/moepool/transport"
)

// Seconds, which are ticks of the table.
const (
	silenceTicks = 5 // without a beat: lost
	rivalTicks   = 3 // the holder of an id is silent for so long after another process has claimed it: replaced
	repeatTicks  = 5 // between two refusals, or two assignments, of one process
)

// actionKind is what the table wants done.
type actionKind uint8

const (
	actAddress actionKind = iota + 1 // work for the id goes to instance from now on
	actRefuse                        // tell instance why; also log it
	actAssign                        // send the worker its part of the plan
	actLost                          // the worker can't be used any more, for reason
	actLog                           // reason, for a person
)

type action struct {
	kind     actionKind
	worker   string
	instance string
	reason   string
}

// member is one worker id.
type member struct {
	beat     transport.Beat // the last one of the instance that holds the id
	quiet    int            // ticks since then
	lost     string         // why it can't be used; "" if it is there
	rival    string         // another instance that claims the id
	waiting  int            // ticks until an assignment may be sent again
	reported string         // why it failed, said once
}

// table is the pure state of the cluster's workers.
type table struct {
	instance string // of this coordinator
	identity transport.Identity
	term     uint64
	plan     *placement.Plan
	members  map[string]*member
	refused  map[string]int    // instance → ticks until it is told again
	foreign  map[string]string // worker that serves another coordinator → which
	dead     map[string]bool   // instances whose process has ended: beats of theirs are late
	failures map[string]string // reported from outside, or why a worker was refused or failed: ends a wait
}

func newTable(instance string, identity transport.Identity, term uint64) *table {
	return &table{instance: instance, identity: identity, term: term, members: map[string]*member{}, refused: map[string]int{},
		foreign: map[string]string{}, dead: map[string]bool{}, failures: map[string]string{}}
}

// beat takes a worker's beat.
func (t *table) beat(b *transport.Beat) []action {
	if why := t.identity.Mismatch("coordinator", b.Identity, "worker "+b.Worker); why != "" {
		out := t.refuse(b, why)
		if out != nil {
			t.failures[b.Worker] = "refused: " + why
		}
		return out
	}
	if t.dead[b.Instance] {
		return nil
	}
	m := t.members[b.Worker]
	if m != nil && m.lost == "" && m.beat.Instance != b.Instance {
		if m.beat.State != transport.StateDraining {
			m.rival = b.Instance // whether the holder still lives is seen from its next beat, or from silence
			return nil
		}
		return append(t.lose(b.Worker, "it has left"), t.beat(b)...)
	}
	if b.Coordinator != "" && b.Coordinator != t.instance {
		return t.serves(b, m)
	}
	delete(t.foreign, b.Worker)
	var out []action
	if m == nil || m.lost != "" {
		if b.State == transport.StateDraining {
			return nil
		}
		out = t.admit(b)
		m = t.members[b.Worker]
	}
	m.beat, m.quiet = *b, 0
	if m.rival != "" {
		out = append(out, t.refuse(&transport.Beat{Worker: b.Worker, Instance: m.rival},
			fmt.Sprintf("the worker id %s is held by another process (%s, pid %d)", b.Worker, b.Host, b.PID))...)
		m.rival = ""
	}
	switch b.State {
	case transport.StateFailed:
		if why := "failed: " + b.Error; m.reported != why {
			m.reported, t.failures[b.Worker] = why, why
			out = append(out, action{kind: actLost, worker: b.Worker, instance: b.Instance, reason: why})
		}
		return out
	case transport.StateDraining:
		return append(out, t.lose(b.Worker, "it is leaving")...)
	}
	return append(out, t.assign(b.Worker)...)
}

// admit makes an instance the holder of its id.
func (t *table) admit(b *transport.Beat) []action {
	t.members[b.Worker] = &member{beat: *b}
	delete(t.failures, b.Worker)
	what := "registered"
	if t.planned(b.Worker) {
		what = "is back"
	}
	return []action{
		{kind: actAddress, worker: b.Worker, instance: b.Instance},
		{kind: actLog, worker: b.Worker, instance: b.Instance, reason: fmt.Sprintf("%s (%s, node %d, pid %d)", what, b.Host, b.Node, b.PID)},
	}
}

// serves deals with a worker of another coordinator.
func (t *table) serves(b *transport.Beat, m *member) []action {
	if m != nil && m.lost == "" {
		return t.lose(b.Worker, "serves another coordinator now ("+b.Coordinator+")")
	}
	if t.foreign[b.Worker] == b.Coordinator {
		return nil
	}
	t.foreign[b.Worker] = b.Coordinator
	return []action{{kind: actLog, worker: b.Worker, instance: b.Instance, reason: fmt.Sprintf(
		"serves another coordinator (%s); it is free some seconds after that one has ended", b.Coordinator)}}
}

// refuse tells an instance once in a while that it can't take part.
func (t *table) refuse(b *transport.Beat, why string) []action {
	if t.refused[b.Instance+" "+b.Worker] > 0 {
		return nil
	}
	t.refused[b.Instance+" "+b.Worker] = repeatTicks
	return []action{{kind: actRefuse, worker: b.Worker, instance: b.Instance, reason: why}}
}

// assign gives a worker its part of the plan if it doesn't have it yet.
func (t *table) assign(worker string) []action {
	m := t.members[worker]
	if !t.planned(worker) || m.lost != "" || m.waiting > 0 {
		return nil
	}
	if b := &m.beat; b.Coordinator == t.instance && b.Epoch == t.plan.Epoch && b.Term == t.term {
		return nil
	}
	m.waiting = repeatTicks
	return []action{{kind: actAssign, worker: worker, instance: m.beat.Instance}}
}

func (t *table) planned(worker string) bool {
	if t.plan == nil {
		return false
	}
	_, ok := t.plan.Owned[worker]
	return ok
}

// lose notes that a worker can't be used.
func (t *table) lose(worker, why string) []action {
	m := t.members[worker]
	m.lost, m.rival = why, ""
	return []action{{kind: actLost, worker: worker, instance: m.beat.Instance, reason: why}}
}

// tick is one second.
func (t *table) tick() []action {
	var out []action
	for key := range t.refused {
		if t.refused[key]--; t.refused[key] <= 0 {
			delete(t.refused, key)
		}
	}
	for _, worker := range slices.Sorted(maps.Keys(t.members)) {
		m := t.members[worker]
		m.waiting = max(0, m.waiting-1)
		if m.lost != "" {
			continue
		}
		m.quiet++
		switch {
		case m.rival != "" && m.quiet > rivalTicks:
			out = append(out, t.lose(worker, "another process took its id")...)
		case m.quiet > silenceTicks:
			out = append(out, t.lose(worker, fmt.Sprintf("no beat for %d s", silenceTicks))...)
		}
	}
	return out
}

// fail notes that a worker's process has ended, or can't go on.
func (t *table) fail(worker, why string) []action {
	t.failures[worker] = why
	if m := t.members[worker]; m != nil && m.lost == "" {
		t.dead[m.beat.Instance] = true
		return t.lose(worker, why)
	}
	return nil
}

// unreachable notes that a worker's connection is gone.
func (t *table) unreachable(worker string) []action {
	if m := t.members[worker]; m != nil && m.lost == "" {
		return t.lose(worker, "its connection is gone")
	}
	return nil
}

// setPlan places experts anew; every worker of the plan is assigned.
func (t *table) setPlan(plan *placement.Plan) []action {
	t.plan = plan
	var out []action
	for _, worker := range slices.Sorted(maps.Keys(plan.Owned)) {
		if m := t.members[worker]; m != nil {
			m.waiting = 0
			out = append(out, t.assign(worker)...)
		}
	}
	return out
}

// alive lists the workers that can be placed on, sorted.
func (t *table) alive() []string {
	var ids []string
	for id, m := range t.members {
		if m.lost == "" && m.beat.State != transport.StateFailed {
			ids = append(ids, id)
		}
	}
	slices.Sort(ids)
	return ids
}

// usable says why work can't be sent to a worker of the plan at present.
func (t *table) usable(worker string) error {
	m := t.members[worker]
	switch {
	case m == nil:
		return errors.New("never registered")
	case m.lost != "":
		return errors.New(m.lost)
	case m.beat.State == transport.StateFailed:
		return errors.New("failed: " + m.beat.Error)
	case !t.ready(m):
		return fmt.Errorf("not ready: %s", describe(&m.beat))
	}
	return nil
}

// ready says whether a member holds what the plan gives it.
func (t *table) ready(m *member) bool {
	b := &m.beat
	return m.lost == "" && b.State == transport.StateReady && t.plan != nil && b.Coordinator == t.instance &&
		b.Epoch == t.plan.Epoch && b.Term == t.term
}

// describe says where a worker is in its life.
func describe(b *transport.Beat) string {
	if b.State == transport.StateLoading && b.TotalBytes > 0 {
		return fmt.Sprintf("loading, %d of %d MiB", b.LoadedBytes>>20, b.TotalBytes>>20)
	}
	return string(b.State)
}
