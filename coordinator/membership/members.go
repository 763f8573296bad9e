package membership

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/moepool/moepool/coordinator/placement"
	"github.com/moepool/moepool/transport"
)

// Options configure Members.
type Options struct {
	Requester *transport.Requester
	Instance  string // random, of this coordinator's process
	Identity  transport.Identity
	Model     placement.Model
	// Term of this coordinator; workers refuse a lower one than they have seen. Workers that serve a coordinator of a lower term are taken
	// from it, those of the same or a higher one are left alone.
	Term uint64
	// Placement is what every plan takes into account: Batches and Replicas. Counts and Previous are set here.
	Placement placement.Options
	// Initial is the plan that a former leader committed: it is the active one from the start, and its workers are expected back; may be nil.
	Initial *placement.Plan
	// Draining are workers that were asked to leave under a former leader.
	Draining []string
	// Commit is asked before a plan becomes active; may be nil. An error is said and the plan is asked for again 2 s later, unless the error
	// is ErrPlanRefused: then another plan is made. It is called from one goroutine at a time, with a deadline.
	Commit func(ctx context.Context, plan *placement.Plan) error
	// InMemory says that experts must fit into the workers' memory: plans are checked against what they announce. With arenas,
	// more than that is only slow.
	InMemory bool
	// Tolerant lets a wait go on when a worker is refused: others may come. Without it the wait ends with why.
	Tolerant bool
	// Lane takes the local lane of workers on this host that offer one.
	Lane bool
	// Log is told of everything that a person should know; may be nil.
	Log func(format string, args ...any)
	// OnLost is told when a worker can't be used any more; may be nil. It must return soon.
	OnLost func(worker string, reason error)
}

func (o *Options) validate() error {
	switch {
	case o.Requester == nil:
		return errors.New("membership: a Requester is needed")
	case !transport.ValidName(o.Instance):
		return fmt.Errorf("membership: instance %q: valid are 1 to 64 of A-Z a-z 0-9 _ -", o.Instance)
	case o.Placement.Counts != nil || o.Placement.Previous != nil:
		return errors.New("membership: Placement.Counts and Placement.Previous must not be given")
	}
	if err := fits(o.Initial, o.Model); err != nil {
		return err
	}
	if o.Log == nil {
		o.Log = func(string, ...any) {}
	}
	if o.OnLost == nil {
		o.OnLost = func(string, error) {}
	}
	return nil
}

// fits says why a former leader's plan is none of this model; nil is none.
func fits(plan *placement.Plan, m placement.Model) error {
	if plan == nil {
		return nil
	}
	if len(plan.Owners) != len(m.Layers) {
		return fmt.Errorf("membership: the former leader's placement has %d layers, the model has %d with experts", len(plan.Owners), len(m.Layers))
	}
	for _, layer := range m.Layers {
		if n := len(plan.Owners[layer]); n != m.Experts*m.Parts {
			return fmt.Errorf("membership: the former leader's placement has %d expert parts in layer %d, the model has %d", n, layer, m.Experts*m.Parts)
		}
		for item, owners := range plan.Owners[layer] {
			if len(owners) == 0 || slices.ContainsFunc(owners, func(worker string) bool { return !names(plan, worker) }) {
				return fmt.Errorf("membership: the former leader's placement gives expert part %d of layer %d to no worker that it names: %v", item, layer, owners)
			}
		}
	}
	return nil
}

// Members follows the cluster's workers and decides on their placement. It implements dispatch.Members.
type Members struct {
	o         Options
	ctx       context.Context
	cancel    context.CancelFunc
	stopBeats func()
	announce  chan struct{} // has room for one: the coordinator's beat is due at once
	done      sync.WaitGroup
	routing   *routing

	mu      sync.Mutex
	table   *table
	ledger  *ledger
	news    chan struct{}     // closed at each beat and tick, then replaced
	changed chan struct{}     // closed when the active plan or a worker's usability changes, then replaced
	counts  map[int][]float64 // given to Rebalance; nil: what was observed
	noLane  map[string]string // worker → why its lane is not used though it was asked for
	events  events
	closed  bool

	reason     string // what the active plan was made for
	bytesMoved int64  // by it
	totals     Totals
}

// New begins to follow beats and to send the coordinator's own, until ctx ends or Close.
func New(ctx context.Context, o Options) (*Members, error) {
	if err := o.validate(); err != nil {
		return nil, err
	}
	m := &Members{o: o, table: newTable(o.Instance, o.Identity, o.Term, o.Initial, o.Draining), ledger: newLedger(o.Model), routing: newRouting(o.Model),
		announce: make(chan struct{}, 1), news: make(chan struct{}), changed: make(chan struct{}), noLane: map[string]string{}}
	m.table.inMemory = o.InMemory
	m.ledger.place(o.Initial)
	m.ctx, m.cancel = context.WithCancel(ctx)
	m.done.Add(1)
	go m.run()
	var err error
	if m.stopBeats, err = o.Requester.SubscribeBeats(m.beat); err != nil {
		m.cancel()
		m.done.Wait()
		return nil, err
	}
	return m, nil
}

// Close ends it; workers notice the coordinator's silence.
func (m *Members) Close() {
	m.mu.Lock()
	m.closed = true
	m.mu.Unlock()
	m.cancel()
	m.stopBeats()
	m.done.Wait()
}

// run is the goroutine of the clock.
func (m *Members) run() {
	defer m.done.Done()
	tick := time.NewTicker(transport.ProgressInterval / ticksPerSecond)
	defer tick.Stop()
	own := &transport.CoordinatorBeat{Instance: m.o.Instance, Term: m.o.Term, Identity: m.o.Identity}
	failing := false
	for ticks := 0; ; {
		if ticks%ticksPerSecond == 0 {
			if plan := m.Plan(); plan != nil {
				own.Epoch = plan.Epoch
			}
			err := m.o.Requester.CoordinatorBeat(own)
			if err != nil && !failing {
				m.o.Log("the coordinator's beat can't be sent: %v", err)
			}
			failing = err != nil
		}
		select {
		case <-tick.C:
			ticks++
			m.change(m.table.tick)
		case <-m.announce:
			ticks = 0
		case <-m.ctx.Done():
			return
		}
	}
}

// beat takes one beat; calls come from one goroutine.
func (m *Members) beat(b *transport.Beat) {
	m.change(func() []action {
		out := m.table.beat(b)
		if w := m.table.members[b.Worker]; w != nil && w.lost == "" && w.beat.Instance == b.Instance {
			m.ledger.report(b.Worker, b.Resident, b.Results)
		}
		return out
	})
}

// change changes the table and does what it wants done.
func (m *Members) change(f func() []action) {
	m.mu.Lock()
	if m.closed {
		m.mu.Unlock()
		return
	}
	actions := f()
	for i := 0; i < len(actions); i++ {
		actions = append(actions, m.act(&actions[i])...)
	}
	close(m.news)
	m.news = make(chan struct{})
	if m.table.altered {
		m.table.altered = false
		close(m.changed)
		m.changed = make(chan struct{})
	}
	said := make([]string, len(actions))
	for i := range actions {
		said[i] = m.note(&actions[i])
	}
	m.mu.Unlock()
	for i := range actions {
		if said[i] != "" {
			m.o.Log("%s", said[i])
		}
		if a := &actions[i]; a.kind == actLost {
			m.o.OnLost(a.worker, errors.New(a.reason))
		}
	}
}

// act does one thing and gives what follows from it; callers hold mu.
func (m *Members) act(a *action) []action {
	switch a.kind {
	case actAddress:
		m.o.Requester.Address(a.worker, a.instance)
	case actLost:
		m.ledger.forget(a.worker)
	case actCompute:
		m.compute(a.pending)
	case actCommit:
		if m.o.Commit == nil {
			return m.table.committed(a.pending, nil)
		}
		m.commit(a.pending)
	case actActivate:
		m.reason = a.reason
		_, m.bytesMoved = a.plan.Moved(m.o.Model, a.pending.before)
		m.totals.Moved += m.bytesMoved
		m.ledger.place(a.plan)
		select {
		case m.announce <- struct{}{}:
		default:
		}
	case actAssign:
		m.assign(*a, m.table.members[a.worker].beat.Lane)
	case actRefuse, actDrain:
		m.tell(*a)
	}
	return nil
}

// compute computes a plan in a goroutine of its own; callers hold mu.
func (m *Members) compute(p *pending) {
	o := m.o.Placement
	o.Previous, o.Counts = p.before, m.counts
	if m.counts = nil; o.Counts == nil {
		o.Counts, o.Pairs = m.routing.observed()
	}
	m.done.Add(1)
	go func() {
		defer m.done.Done()
		plan, err := placement.Compute(p.epoch, m.o.Model, p.workers, o)
		m.change(func() []action { return m.table.computed(p, plan, err) })
	}()
}

// commitTimeout is how long a commit may take.
const commitTimeout = 10 * time.Second

// commit asks whether a plan may become active, in a goroutine of its own; callers hold mu.
func (m *Members) commit(p *pending) {
	m.done.Add(1)
	go func() {
		defer m.done.Done()
		ctx, cancel := context.WithTimeoutCause(m.ctx, commitTimeout, fmt.Errorf("no answer within %s", commitTimeout))
		defer cancel()
		err := m.o.Commit(ctx, p.plan)
		if m.ctx.Err() != nil {
			return
		}
		m.change(func() []action { return m.table.committed(p, err) })
	}()
}

// tell sends a refusal, or that a worker may leave, from a goroutine of its own; callers hold mu.
func (m *Members) tell(a action) {
	m.done.Add(1)
	go func() {
		defer m.done.Done()
		what, err := "that it is refused", error(nil)
		if a.kind == actDrain {
			what, err = "that it may leave", m.o.Requester.Drain(m.ctx, a.worker)
		} else {
			err = m.o.Requester.Refuse(m.ctx, a.worker, a.instance, &transport.Refuse{Reason: a.reason})
		}
		if err != nil && m.ctx.Err() == nil {
			m.o.Log("worker %s could not be told %s: %v", a.worker, what, err)
		}
	}()
}

// assign sends a worker its part of a plan, from a goroutine of its own; callers hold mu.
func (m *Members) assign(a action, lane transport.LaneOffer) {
	assign := m.assignment(a.worker, a.plan)
	m.done.Add(1)
	go func() {
		defer m.done.Done()
		if m.o.Lane { // before the worker can be ready
			m.useLane(a, lane)
		}
		err := m.o.Requester.Assign(m.ctx, a.worker, assign)
		if err == nil || m.ctx.Err() != nil {
			return
		}
		m.o.Log("assignment: %v", err)
		if remote := (*transport.RemoteError)(nil); errors.As(err, &remote) && remote.Code != transport.CodeNotReady {
			m.change(func() []action {
				return m.table.deny(a.worker, a.instance, a.plan, fmt.Sprintf("does not take its assignment: %s: %s", remote.Code, remote.Message))
			})
		}
	}()
}

// useLane takes the lane that a worker's process offers; what is said of a lane that can't be used is said once.
func (m *Members) useLane(a action, offer transport.LaneOffer) {
	err := m.o.Requester.UseLane(m.ctx, a.worker, a.instance, offer, func(err error) {
		if m.Lost(a.worker) == nil { // else the worker is gone, which is said
			m.withoutLane(a.worker, fmt.Sprintf("the local lane ended (%v): its work goes over NATS now", err))
		}
	})
	if err != nil && m.ctx.Err() == nil {
		m.withoutLane(a.worker, fmt.Sprintf("no local lane (%v): its work goes over NATS", err))
	}
}

func (m *Members) withoutLane(worker, why string) {
	m.mu.Lock()
	said := m.noLane[worker] == why
	m.noLane[worker] = why
	m.mu.Unlock()
	if !said {
		m.o.Log("warning: worker %s: %s", worker, why)
	}
}

// LaneProblem says why a worker's work goes over NATS though the local lane was asked for; "" if it does not, or was not.
func (m *Members) LaneProblem(worker string) string {
	if m.Lane(worker) == transport.LaneLocal {
		return ""
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.noLane[worker]
}

// Lane is how work goes to a worker: transport.LaneNATS or transport.LaneLocal.
func (m *Members) Lane(worker string) string { return m.o.Requester.Lane(worker) }

// assignment is what a plan gives a worker.
func (m *Members) assignment(worker string, plan *placement.Plan) *transport.Assign {
	owned := plan.Owned[worker]
	a := &transport.Assign{Coordinator: m.o.Instance, Epoch: plan.Epoch, Term: m.o.Term, Identity: m.o.Identity}
	for _, layer := range slices.Sorted(maps.Keys(owned)) {
		a.Layers = append(a.Layers, transport.LayerParts{Layer: layer, Parts: owned[layer]})
	}
	return a
}
