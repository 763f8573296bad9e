package membership

import (
	"errors"
	"fmt"
	"maps"
	"slices"

	"github.com/moepool/moepool/coordinator/placement"
	"github.com/moepool/moepool/internal/bytesize"
	"github.com/moepool/moepool/transport"
)

// ticksPerSecond is how often the table's clock moves.
const ticksPerSecond = 4

// Times, in ticks.
const (
	silenceTicks = 3 * ticksPerSecond     // without a beat: lost
	rivalTicks   = 3 * ticksPerSecond / 2 // the holder of an id is silent for so long while another process claims it: replaced
	unfitTicks   = 60 * ticksPerSecond    // a worker that could not load is not asked again for so long, the next time twice as long
	repeatTicks  = 5 * ticksPerSecond     // between two refusals, assignments or drains of one process
	forgetTicks  = 600 * ticksPerSecond   // a lost worker that no plan names is forgotten
)

// member is one worker id.
type member struct {
	beat      transport.Beat  // the last one of the instance that holds the id
	quiet     int             // ticks since then
	present   int             // ticks since it was admitted
	lost      string          // why it can't be used; "" if it is there
	lostFor   int             // ticks since it was lost
	losses    int             // how often it was lost, lately
	unseen    bool            // only known from the plan that a former leader left
	dead      bool            // its process has ended for certain
	draining  bool            // it leaves: it said so, or was asked to
	unfit     string          // why no plan gives it anything for a while: it could not load, or did not take, an assignment
	unfitFor  int             // ticks until it may be tried again
	unfits    int             // how often it was unfit, lately
	rival     *transport.Beat // another instance that claims the id; nil: none
	waiting   int             // ticks until an assignment may be sent again
	drainWait int             // ticks until it may be told again that it can leave
	reported  string          // the epoch that it could not load and why, said once
	usable    bool            // at the last look
}

// table is the pure state of the cluster's workers and of the plans over them (plans.go): no clock, no network.
type table struct {
	instance string // of this coordinator
	identity transport.Identity
	term     uint64
	members  map[string]*member
	refused  map[string]int    // instance → ticks until it is told again
	foreign  map[string]string // worker that serves another coordinator → which
	dead     map[string]bool   // instances whose process has ended: beats of theirs are late
	failures map[string]string // reported from outside, or why a worker was refused or failed: ends a wait

	plans
}

// newTable begins with a plan that a former leader committed, or nil; its workers are expected back.
//
// draining are ids that were asked to leave before.
func newTable(instance string, identity transport.Identity, term uint64, initial *placement.Plan, draining []string) *table {
	t := &table{instance: instance, identity: identity, term: term, members: map[string]*member{}, refused: map[string]int{},
		foreign: map[string]string{}, dead: map[string]bool{}, failures: map[string]string{}}
	if initial != nil {
		t.active, t.epoch = initial, initial.Epoch
		for id := range initial.Owned {
			t.members[id] = unseen(id)
		}
	}
	for _, id := range draining {
		if t.members[id] == nil {
			t.members[id] = unseen(id)
		}
		t.members[id].draining = true
	}
	return t
}

// unseen is a worker that is known by its id only.
func unseen(id string) *member {
	return &member{beat: transport.Beat{Worker: id}, lost: "it has not been seen yet", unseen: true}
}

// beat takes a worker's beat, which it keeps.
func (t *table) beat(b *transport.Beat) []action {
	out, news := t.accept(b)
	switch m := t.members[b.Worker]; {
	case news:
		return append(out, t.decide()...)
	case m != nil && m.beat.Instance == b.Instance:
		return append(out, t.order(b.Worker)...)
	}
	return out
}

// accept takes what a beat says of its worker. news: decisions depend on it.
func (t *table) accept(b *transport.Beat) (out []action, news bool) {
	if why := t.identity.Mismatch("coordinator", b.Identity, "worker "+b.Worker); why != "" {
		if m := t.members[b.Worker]; b.Instance == "" && m != nil && m.lost == "" {
			return nil, false // another version's beat names no instance: the refusal would reach the id's living holder
		}
		out := t.refuse(b, why)
		if out != nil {
			t.failures[b.Worker] = "refused: " + why
		}
		return out, false
	}
	if t.dead[b.Instance] {
		return nil, false
	}
	m := t.members[b.Worker]
	if m != nil && m.lost == "" && m.beat.Instance != b.Instance {
		m.rival = b // whether the holder still lives is seen from its next beat, or from silence
		return nil, false
	}
	if b.Coordinator != "" && b.Coordinator != t.instance && b.Term >= t.term {
		return t.serves(b, m)
	}
	delete(t.foreign, b.Worker)
	if m == nil || m.lost != "" {
		if hasLeft(b) {
			return nil, false
		}
		out = t.admit(b)
		m = t.members[b.Worker]
	}
	news = len(out) > 0 || differs(&m.beat, b)
	m.beat, m.quiet = *b, 0
	if m.rival != nil {
		out = append(out, t.refuse(m.rival, fmt.Sprintf("the worker id %s is held by another process (%s, pid %d)", b.Worker, b.Host, b.PID))...)
		m.rival = nil
	}
	switch {
	case hasLeft(b):
		return append(out, t.drop(b.Worker, "it is leaving")...), true
	case b.State == transport.StateDraining && !m.draining:
		m.draining, news = true, true
		out = append(out, action{kind: actLog, event: EventDraining, worker: b.Worker, instance: b.Instance, reason: "wants to leave"})
	case b.State == transport.StateFailed:
		out = append(out, t.failed(b, m)...)
	}
	t.look(b.Worker)
	return out, news
}

// hasLeft says whether a beat is the last word of a process: it ends and computes nothing any more.
func hasLeft(b *transport.Beat) bool {
	return b.State == transport.StateDraining && len(b.Serves) == 0
}

// differs says whether a beat tells something that decisions depend on.
func differs(a, b *transport.Beat) bool {
	return a.State != b.State || a.Epoch != b.Epoch || a.Term != b.Term || a.Coordinator != b.Coordinator || a.Instance != b.Instance ||
		!slices.Equal(a.Serves, b.Serves)
}

// failed notes that a worker can't load what it was assigned; what it serves it goes on serving.
func (t *table) failed(b *transport.Beat, m *member) []action {
	why := "failed: " + b.Error
	this := fmt.Sprint(b.Epoch, " ", why)
	if m.reported == this {
		return nil
	}
	m.reported = this
	m.unable(why)
	t.failures[b.Worker] = why
	if t.can(m) {
		return []action{{kind: actLog, event: EventFailed, worker: b.Worker, instance: b.Instance, reason: why}}
	}
	return []action{{kind: actLost, event: EventFailed, worker: b.Worker, instance: b.Instance, reason: why}}
}

// unable notes that a worker can't prepare what it is assigned; it is tried again later, since what was short then may be there.
func (m *member) unable(why string) {
	m.unfit, m.unfitFor = why, unfitTicks<<min(m.unfits, maxShift)
	m.unfits++
}

// admit makes an instance the holder of its id.
func (t *table) admit(b *transport.Beat) []action {
	m := &member{beat: *b}
	if old := t.members[b.Worker]; old != nil {
		m.losses = old.losses
		// The same process after a while out of reach: what was asked of it still holds. A mark without a process waits for the first.
		m.draining = old.draining && (old.beat.Instance == b.Instance || old.unseen)
	}
	t.members[b.Worker] = m
	delete(t.failures, b.Worker)
	what, event := "registered", EventJoined
	if t.planned(b.Worker) {
		what, event = "is back", EventBack
	}
	return []action{
		{kind: actAddress, worker: b.Worker, instance: b.Instance},
		{kind: actLog, event: event, worker: b.Worker, instance: b.Instance,
			reason: fmt.Sprintf("%s (%s, node %d, pid %d)", what, b.Host, b.Node, b.PID)},
	}
}

// serves deals with a worker of another coordinator, of the same or a higher term.
func (t *table) serves(b *transport.Beat, m *member) (out []action, news bool) {
	if m != nil && m.lost == "" {
		return t.drop(b.Worker, "serves another coordinator now ("+b.Coordinator+")"), true
	}
	if t.foreign[b.Worker] == b.Coordinator {
		return nil, false
	}
	t.foreign[b.Worker] = b.Coordinator
	return []action{{kind: actLog, worker: b.Worker, instance: b.Instance, reason: fmt.Sprintf(
		"serves another coordinator (%s); it is free some seconds after that one has ended", b.Coordinator)}}, false
}

// refuse tells an instance once in a while that it can't take part.
func (t *table) refuse(b *transport.Beat, why string) []action {
	if t.refused[b.Instance+" "+b.Worker] > 0 {
		return nil
	}
	t.refused[b.Instance+" "+b.Worker] = repeatTicks
	return []action{{kind: actRefuse, event: EventRefused, worker: b.Worker, instance: b.Instance, reason: why}}
}

// lose notes that a worker can't be used, and what follows from it.
func (t *table) lose(worker, why string) []action {
	return append(t.drop(worker, why), t.decide()...)
}

// drop notes that a worker can't be used; a process that waits for its id takes it.
func (t *table) drop(worker, why string) []action {
	m := t.members[worker]
	rival := m.rival
	m.lost, m.rival, m.lostFor = why, nil, 0
	event := EventLost
	if m.draining {
		event = EventDrained
	} else {
		m.losses++
	}
	t.look(worker)
	out := []action{{kind: actLost, event: event, worker: worker, instance: m.beat.Instance, reason: why}}
	if rival != nil {
		taken, _ := t.accept(rival)
		out = append(out, taken...)
	}
	return out
}

// tick is a quarter of a second.
func (t *table) tick() []action {
	var out []action
	for key := range t.refused {
		if t.refused[key]--; t.refused[key] <= 0 {
			delete(t.refused, key)
		}
	}
	for _, worker := range slices.Sorted(maps.Keys(t.members)) {
		m := t.members[worker]
		m.waiting, m.drainWait = max(0, m.waiting-1), max(0, m.drainWait-1)
		if m.unfitFor = max(0, m.unfitFor-1); m.unfitFor == 0 {
			m.unfit = ""
		}
		if m.lost != "" {
			if m.lostFor++; m.lostFor > forgetTicks && !t.planned(worker) && !(m.draining && m.unseen) {
				delete(t.members, worker)
			}
			continue
		}
		m.quiet++
		if m.present++; m.present > forgetTicks {
			m.losses, m.unfits = 0, 0
		}
		switch {
		case m.rival != nil && m.quiet > rivalTicks:
			out = append(out, t.drop(worker, "another process took its id")...)
		case m.quiet > silenceTicks:
			out = append(out, t.drop(worker, fmt.Sprintf("no beat for %d s", silenceTicks/ticksPerSecond))...)
		}
	}
	t.pass()
	return append(out, t.decide()...)
}

// fail notes that a worker's process has ended, or can't go on.
func (t *table) fail(worker, why string) []action {
	t.failures[worker] = why
	if m := t.members[worker]; m != nil && m.lost == "" {
		t.dead[m.beat.Instance], m.dead = true, true
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

// alive lists the workers that are there and have not failed, sorted.
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

// ours says whether a member's assignment is one of this coordinator.
func (t *table) ours(m *member) bool {
	return m.beat.Coordinator == t.instance && m.beat.Term == t.term
}

// holds says whether a member answers for what an epoch of this coordinator gives it.
func (t *table) holds(m *member, epoch uint64) bool {
	return m.lost == "" && t.ours(m) && slices.Contains(m.beat.Serves, epoch)
}

// can says whether work of the active plan can be sent to a member, or, if that plan does without it, work of the one before, which may
// still be in progress.
func (t *table) can(m *member) bool {
	switch worker := m.beat.Worker; {
	case names(t.active, worker):
		return t.holds(m, t.active.Epoch)
	case names(t.previous, worker):
		return t.holds(m, t.previous.Epoch)
	}
	return false
}

// usable says why work can't be sent to a worker at present.
func (t *table) usable(worker string) error {
	m := t.members[worker]
	switch {
	case m == nil:
		return errors.New("never registered")
	case m.lost != "":
		return errors.New(m.lost)
	case t.can(m):
		return nil
	case m.beat.State == transport.StateFailed:
		return errors.New("failed: " + m.beat.Error)
	}
	return fmt.Errorf("not ready: %s", describe(&m.beat))
}

// look notes whether a worker can be used now.
func (t *table) look(worker string) {
	m := t.members[worker]
	if now := t.can(m); now != m.usable {
		m.usable, t.altered, t.covered = now, true, nil
	}
}

// describe says where a worker is in its life.
func describe(b *transport.Beat) string {
	if b.State == transport.StateLoading && b.TotalBytes > 0 {
		return fmt.Sprintf("loading, %s of %s", bytesize.Text(b.LoadedBytes), bytesize.Text(b.TotalBytes))
	}
	return string(b.State)
}
