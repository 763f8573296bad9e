package membership

import (
	"maps"
	"slices"

	"github.com/moepool/moepool/coordinator/placement"
	"github.com/moepool/moepool/coordinator/router"
	"github.com/moepool/moepool/transport"
)

// Plan is the active placement, nil before the first.
func (m *Members) Plan() *placement.Plan {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.table.active
}

// Term is the coordinator's.
func (m *Members) Term() uint64 { return m.o.Term }

// Lost says why work of the active plan can't be sent to a worker at present, nil if it can. A worker that the active plan does without is
// not lost while it serves the plan before.
func (m *Members) Lost(worker string) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.table.usable(worker)
}

// Covered says whether every expert part of the active plan has an owner that can be used; false without a plan.
func (m *Members) Covered() bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.table.allCovered()
}

// Changed is closed at the next change of the active plan or of whether a worker can be used.
func (m *Members) Changed() <-chan struct{} {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.changed
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

// Uncovered reports that somebody waits for expert parts (expert·parts+part) of a layer that no usable worker owns: lost workers are not waited
// for any longer, their experts are placed anew.
func (m *Members) Uncovered(_ int, parts []uint32) {
	if len(parts) > 0 {
		m.change(m.table.uncovered)
	}
}

// Drain moves a worker's experts to the others and then tells it to leave. It returns at once, with an error if there is no such worker or
// if no other one can take its experts; Status shows how far it is.
func (m *Members) Drain(worker string) (err error) {
	m.change(func() (out []action) {
		out, err = m.table.drain(worker)
		return out
	})
	return err
}

// Rebalance makes a new plan of the same workers, for the given counts (layer → expert → routed rows) or, if nil, for those that were observed.
// It returns at once; a plan that is prepared already comes first. Status shows how far it is.
func (m *Members) Rebalance(counts map[int][]float64) (err error) {
	m.change(func() (out []action) {
		if out, err = m.table.askRebalance(); err == nil {
			m.counts = counts
		}
		return out
	})
	return err
}

// Observe notes how many rows of a step were routed to each expert of a layer: rows[expert]. It is not kept.
func (m *Members) Observe(layer int, rows []uint32) { m.routing.observe(layer, rows) }

// ObservePairs notes which experts of a layer the rows of a step chose together; Observe of the same step follows. The choices are not kept.
func (m *Members) ObservePairs(layer int, choices []router.Choice) {
	m.routing.observePairs(layer, choices)
}

// Routed gives what Observe was told, the older the less of it: layer → expert → rows; nil if it was told nothing.
func (m *Members) Routed() map[int][]float64 { return m.routing.snapshot() }

// Computed notes what a worker's answer for a layer says of its memory.
func (m *Members) Computed(worker string, layer int, r *transport.Result) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.ledger.change(worker, layer, r.Parts, true, r.Number)
	for i := range r.Arrived {
		m.ledger.change(worker, r.Arrived[i].Layer, r.Arrived[i].Parts, true, r.Number)
	}
	for i := range r.Evicted { // the last word: what was computed may have had to make room
		m.ledger.change(worker, r.Evicted[i].Layer, r.Evicted[i].Parts, false, r.Number)
	}
}

// Residency is a snapshot of which expert parts are in memory at a worker that owns them.
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
