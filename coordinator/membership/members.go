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
	// Term of this coordinator; workers refuse a lower one than they have seen.
	Term uint64
	// InMemory says that experts must fit into the workers' memory: the plan is checked against what they announce. With arenas,
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
	}
	if o.Log == nil {
		o.Log = func(string, ...any) {}
	}
	if o.OnLost == nil {
		o.OnLost = func(string, error) {}
	}
	return nil
}

// Members follows the cluster's workers. It implements dispatch.Members.
type Members struct {
	o         Options
	ctx       context.Context
	cancel    context.CancelFunc
	stopBeats func()
	done      sync.WaitGroup

	mu      sync.Mutex
	table   *table
	ledger  *ledger
	changed chan struct{}     // closed at each change, then replaced
	noLane  map[string]string // worker → why its lane is not used though it was asked for
	closed  bool
}

// New begins to follow beats and to send the coordinator's own, until ctx ends or Close.
func New(ctx context.Context, o Options) (*Members, error) {
	if err := o.validate(); err != nil {
		return nil, err
	}
	m := &Members{o: o, table: newTable(o.Instance, o.Identity, o.Term), ledger: newLedger(o.Model), changed: make(chan struct{}),
		noLane: map[string]string{}}
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
	tick := time.NewTicker(transport.ProgressInterval)
	defer tick.Stop()
	own := &transport.CoordinatorBeat{Instance: m.o.Instance, Term: m.o.Term, Identity: m.o.Identity}
	failing := false
	for {
		m.mu.Lock()
		if plan := m.table.plan; plan != nil {
			own.Epoch = plan.Epoch
		}
		m.mu.Unlock()
		err := m.o.Requester.CoordinatorBeat(own)
		if err != nil && !failing {
			m.o.Log("the coordinator's beat can't be sent: %v", err)
		}
		failing = err != nil
		select {
		case <-tick.C:
			m.change(func() []action { return m.table.tick() })
		case <-m.ctx.Done():
			return
		}
	}
}

// beat takes one beat; calls come from one goroutine.
func (m *Members) beat(b *transport.Beat) {
	m.change(func() []action {
		out := m.table.beat(b)
		if w := m.table.members[b.Worker]; w != nil && w.beat.Instance == b.Instance && len(b.Resident) > 0 && m.table.plan != nil {
			m.ledger.report(m.table.plan.Owned[b.Worker], b.Resident)
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
	var lost []action
	for _, a := range actions {
		switch a.kind {
		case actAddress:
			m.o.Requester.Address(a.worker, a.instance)
		case actLost:
			if m.table.planned(a.worker) {
				m.ledger.forget(m.table.plan.Owned[a.worker])
			}
			lost = append(lost, a)
		case actAssign:
			m.send(a, m.assignment(a.worker), m.table.members[a.worker].beat.Lane)
		case actRefuse:
			m.send(a, nil, transport.LaneOffer{})
		}
	}
	close(m.changed)
	m.changed = make(chan struct{})
	m.mu.Unlock()
	for _, a := range actions {
		switch a.kind {
		case actLog:
			m.o.Log("worker %s %s", a.worker, a.reason)
		case actRefuse:
			m.o.Log("worker %s is refused: %s", a.worker, a.reason)
		}
	}
	for _, a := range lost {
		m.o.Log("worker %s can't be used any more: %s", a.worker, a.reason)
		m.o.OnLost(a.worker, errors.New(a.reason))
	}
}

// send sends an assignment or, without one, a refusal, from a goroutine of its own; callers hold mu.
func (m *Members) send(a action, assign *transport.Assign, lane transport.LaneOffer) {
	m.done.Add(1)
	go func() {
		defer m.done.Done()
		if assign == nil {
			if err := m.o.Requester.Refuse(m.ctx, a.worker, a.instance, &transport.Refuse{Reason: a.reason}); err != nil && m.ctx.Err() == nil {
				m.o.Log("worker %s could not be told that it is refused: %v", a.worker, err)
			}
			return
		}
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
				m.table.failures[a.worker] = fmt.Sprintf("does not take its assignment: %s: %s", remote.Code, remote.Message)
				return nil
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
	m.o.Log("warning: worker %s: %s", worker, why)
	m.mu.Lock()
	defer m.mu.Unlock()
	m.noLane[worker] = why
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

// assignment is what the plan gives a worker; callers hold mu.
func (m *Members) assignment(worker string) *transport.Assign {
	owned := m.table.plan.Owned[worker]
	a := &transport.Assign{Coordinator: m.o.Instance, Epoch: m.table.plan.Epoch, Term: m.o.Term, Identity: m.o.Identity}
	for _, layer := range slices.Sorted(maps.Keys(owned)) {
		a.Layers = append(a.Layers, transport.LayerParts{Layer: layer, Parts: owned[layer]})
	}
	return a
}

// Fail reports that a worker's process has ended: it is lost until another process takes its id, and a WaitReady ends.
func (m *Members) Fail(worker string, err error) {
	m.change(func() []action { return m.table.fail(worker, err.Error()) })
}

// Unreachable reports that nobody listens to a worker's subject: its process has ended or lost its connection. It is lost until
// a beat comes.
func (m *Members) Unreachable(worker string) {
	m.change(func() []action { return m.table.unreachable(worker) })
}

// Plan is the present placement, nil before the first.
func (m *Members) Plan() *placement.Plan {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.table.plan
}

// Term is the coordinator's.
func (m *Members) Term() uint64 { return m.o.Term }

// Lost says why a worker can't be used at present, nil if it can.
func (m *Members) Lost(worker string) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.table.usable(worker)
}

// Computed notes that these expert parts of a layer are in memory now.
func (m *Members) Computed(layer int, parts []uint32) {
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, item := range parts {
		m.ledger.set(layer, item, true)
	}
}

// Residency is a snapshot of which expert parts are in memory.
func (m *Members) Residency() *Residency {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.ledger.take()
}

// Workers gives the last beat of every worker that is there, in order of ids.
func (m *Members) Workers() []transport.Beat {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.workers()
}

func (m *Members) workers() []transport.Beat {
	var beats []transport.Beat
	for _, id := range slices.Sorted(maps.Keys(m.table.members)) {
		if w := m.table.members[id]; w.lost == "" {
			beats = append(beats, w.beat)
		}
	}
	return beats
}
