package membership

import (
	"errors"
	"fmt"
	"maps"
	"slices"

	"github.com/moepool/moepool/coordinator/placement"
	"github.com/moepool/moepool/transport"
	"pgregory.net/rapid"
)

// simulated is a worker process as the table sees it: it serves several epochs, loads the newest, and leaves when it may.
type simulated struct {
	beat    transport.Beat
	silent  bool // cut off
	ended   bool
	leaving bool
}

func (p *simulated) String() string {
	return fmt.Sprintf("%s/%s %s %v, silent %v, ended %v, leaving %v", p.beat.Worker, p.beat.Instance, p.beat.State, p.beat.Serves, p.silent, p.ended, p.leaving)
}

// world is a table, its workers, and what was promised about both.
type world struct {
	*table
	t         *rapid.T
	processes map[string]*simulated // by id: the newest process
	earlier   []*simulated          // older ones that still beat
	instances int
	replicas  int
	asked     *pending // to compute
	commits   *pending // to commit
	plans     uint64   // the highest epoch of a plan
	activated uint64
	committed map[uint64]bool // epochs that a commit has accepted
	drained   map[string]bool // instances that were told to leave
	refusals  map[string]bool // instances that can't take part
}

func newWorld(t *rapid.T) *world {
	w := &world{t: t, processes: map[string]*simulated{}, committed: map[uint64]bool{}, drained: map[string]bool{}, refusals: map[string]bool{},
		replicas: rapid.IntRange(1, 2).Draw(t, "replicas")}
	var initial *placement.Plan
	if rapid.IntRange(0, 3).Draw(t, "initial") == 0 {
		initial = replicated(4)
		w.plans, w.activated = 4, 4
	}
	w.table = newTable("me", testIdentity, 7, initial, nil)
	return w
}

func (w *world) id() string { return rapid.SampledFrom([]string{"a", "b", "c", "d"}).Draw(w.t, "id") }

// start starts a process; one of the same id goes on if it was not ended.
func (w *world) start() {
	id := w.id()
	if old := w.processes[id]; old != nil && !old.ended {
		w.earlier = append(w.earlier, old)
	}
	w.instances++
	p := &simulated{beat: *idle(id, fmt.Sprint("i", w.instances))}
	if rapid.IntRange(0, 9).Draw(w.t, "mismatch") == 0 {
		p.beat.Identity.Format = "bf16"
		w.refusals[p.beat.Instance] = true
	}
	if rapid.IntRange(0, 9).Draw(w.t, "foreign") == 0 {
		p.beat.Coordinator, p.beat.State = "other", transport.StateReady
		p.beat.Term = uint64(rapid.IntRange(6, 8).Draw(w.t, "term"))
	}
	w.processes[id] = p
	if rapid.Bool().Draw(w.t, "the older one ends") {
		for _, old := range w.earlier {
			old.ended = old.ended || old.beat.Worker == id
		}
	}
	w.send(p)
}

// some is a process, old ones too; nil if there is none.
func (w *world) some() *simulated {
	all := slices.Clone(w.earlier)
	for _, id := range slices.Sorted(maps.Keys(w.processes)) {
		all = append(all, w.processes[id])
	}
	if len(all) == 0 {
		return nil
	}
	return rapid.SampledFrom(all).Draw(w.t, "process")
}

// send lets a process beat.
func (w *world) send(p *simulated) {
	if p.ended || p.silent {
		return
	}
	if p.leaving {
		p.beat.State = transport.StateDraining
		if w.drained[p.beat.Instance] {
			p.beat.Serves, p.ended = nil, true
		}
	}
	b := p.beat
	b.Serves = slices.Clone(b.Serves)
	w.do(w.beat(&b))
}

// take is a process that gets an assignment.
func (p *simulated) take(coordinator string, term uint64, plan *placement.Plan) {
	b := &p.beat
	if p.ended || p.leaving && b.Coordinator == coordinator {
		return
	}
	if b.Coordinator != coordinator || b.Term != term {
		b.Serves = nil
	}
	b.Coordinator, b.Epoch, b.Term, b.State = coordinator, plan.Epoch, term, transport.StateLoading
}

// load ends a load.
func (p *simulated) load() {
	b := &p.beat
	if b.State != transport.StateLoading {
		return
	}
	b.State = transport.StateReady
	if !slices.Contains(b.Serves, b.Epoch) {
		b.Serves = append(b.Serves, b.Epoch)
	}
}

// do does what the table wants and checks that it may want it.
func (w *world) do(actions []action) {
	for len(actions) > 0 {
		a := actions[0]
		actions = actions[1:]
		switch a.kind {
		case actCompute:
			if w.asked != nil || w.commits != nil || a.pending != w.pending || a.pending.epoch <= w.plans {
				w.t.Fatalf("a plan of epoch %d is asked for (highest so far: %d) while another one is under way", a.pending.epoch, w.plans)
			}
			for _, worker := range a.pending.workers {
				if m := w.members[worker.ID]; m.lost != "" || m.draining || m.unfit != "" {
					w.t.Fatalf("a plan over %s, which is lost (%s), leaves (%v) or has failed", worker.ID, m.lost, m.draining)
				}
			}
			w.asked = a.pending
		case actCommit:
			if w.commits != nil || a.pending != w.pending {
				w.t.Fatalf("placement %d is to be committed while another one is", a.pending.epoch)
			}
			for id := range a.pending.plan.Owned {
				if m := w.members[id]; m.lost != "" || m.beat.Coordinator != "me" || m.beat.Term != 7 || !slices.Contains(m.beat.Serves, a.pending.epoch) {
					w.t.Fatalf("placement %d is to be committed, %s doesn't serve it", a.pending.epoch, id)
				}
			}
			w.commits = a.pending
		case actActivate:
			if !w.committed[a.plan.Epoch] || a.plan.Epoch <= w.activated || w.active != a.plan {
				w.t.Fatalf("placement %d becomes active after %d, committed: %v", a.plan.Epoch, w.activated, w.committed)
			}
			w.activated = a.plan.Epoch
		case actAssign:
			if a.plan != w.active && (w.pending == nil || a.plan != w.pending.plan) || !names(a.plan, a.worker) {
				w.t.Fatalf("%s is assigned placement %d, which is none that it is needed for", a.worker, a.plan.Epoch)
			}
			if p := w.holder(a.worker, a.instance); p != nil && rapid.IntRange(0, 3).Draw(w.t, "assignment arrives") > 0 {
				p.take("me", 7, a.plan)
			}
		case actDrain:
			if m := w.members[a.worker]; !m.draining || w.planned(a.worker) {
				w.t.Fatalf("%s is told to leave, needed: %v", a.worker, w.planned(a.worker))
			}
			if p := w.holder(a.worker, a.instance); p != nil && rapid.IntRange(0, 3).Draw(w.t, "drain arrives") > 0 {
				p.leaving, w.drained[a.instance] = true, true
			}
		}
	}
}

func (w *world) holder(id, instance string) *simulated {
	for _, p := range append(slices.Clone(w.earlier), w.processes[id]) {
		if p != nil && p.beat.Instance == instance && !p.ended {
			return p
		}
	}
	return nil
}

// compute answers the question for a plan.
func (w *world) compute(fail bool) {
	p := w.asked
	if p == nil {
		return
	}
	w.asked = nil
	plan, err := placement.Compute(p.epoch, testModel, p.workers, placement.Options{Previous: p.before, Replicas: w.replicas})
	if fail {
		plan, err = nil, errors.New("no room")
	}
	if err == nil {
		w.plans = max(w.plans, plan.Epoch)
	}
	before := w.epoch
	actions := w.computed(p, plan, err)
	if w.epoch == before {
		w.plans = before // nobody has heard of it
	}
	w.do(actions)
}

func (w *world) commit(err error) {
	p := w.commits
	if p == nil {
		return
	}
	w.commits = nil
	w.committed[p.epoch] = err == nil
	w.do(w.table.committed(p, err))
}

// check is what holds at every moment.
func (w *world) check() {
	for id, m := range w.members {
		usable := w.usable(id) == nil
		switch {
		case usable && m.lost != "":
			w.t.Fatalf("%s is lost (%s) and usable", id, m.lost)
		case usable && m.quiet > silenceTicks:
			w.t.Fatalf("%s is silent for %d ticks and usable", id, m.quiet)
		case usable && (m.beat.Coordinator != "me" || m.beat.Term != 7):
			w.t.Fatalf("%s serves %s and is usable", id, m.beat.Coordinator)
		case usable != m.usable:
			w.t.Fatalf("%s: usable %v, at the last look %v", id, usable, m.usable)
		case w.refusals[m.beat.Instance]:
			w.t.Fatalf("%s is refused and a member", id)
		case m.lost == "" && m.draining && !w.planned(id) && m.drainWait == 0:
			w.t.Fatalf("%s waits to be told that it may leave", id)
		}
		if usable {
			plan := w.active
			if !names(plan, id) {
				plan = w.previous
			}
			if !names(plan, id) || !slices.Contains(m.beat.Serves, plan.Epoch) {
				w.t.Fatalf("%s is usable and serves %v", id, m.beat.Serves)
			}
		}
	}
	if w.active != nil && w.active.Epoch != w.activated {
		w.t.Fatalf("placement %d is active, activated was %d", w.active.Epoch, w.activated)
	}
	if p := w.pending; p != nil && w.active != nil && p.epoch <= w.active.Epoch {
		w.t.Fatalf("placement %d is prepared, %d is active", p.epoch, w.active.Epoch)
	}
	uncovered := w.covered
	w.covered = nil
	if fresh := w.coverage(); uncovered != nil && (uncovered.parts != fresh.parts || !maps.Equal(uncovered.missing, fresh.missing)) {
		w.t.Fatalf("coverage is remembered as %v, it is %v", uncovered, fresh)
	}
}

// second passes a second in which all processes beat, load and are answered well.
func (w *world) second() {
	for range ticksPerSecond {
		w.do(w.tick())
		w.compute(false)
		w.commit(nil)
		w.check()
	}
	for _, id := range slices.Sorted(maps.Keys(w.processes)) {
		p := w.processes[id]
		p.load()
		w.send(p)
		w.compute(false)
		w.commit(nil)
		w.check()
	}
}
