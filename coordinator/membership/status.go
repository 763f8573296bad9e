package membership

import (
	"cmp"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/moepool/moepool/coordinator/placement"
	"github.com/moepool/moepool/transport"
)

// Status is everything that there is to know of workers and placement at one moment.
type Status struct {
	Time        time.Time         `json:"time"`
	Coordinator string            `json:"coordinator"` // instance
	Term        uint64            `json:"term"`
	Ready       bool              `json:"ready"`           // every expert part has an owner that can be used
	Uncovered   int               `json:"uncovered_parts"` // expert parts of the active plan without one
	Parts       int               `json:"expert_parts"`    // of the model
	PartBytes   int64             `json:"expert_bytes"`    // packed, of all expert parts of the model once
	Waiting     string            `json:"waiting,omitempty"`
	Active      *PlanStatus       `json:"active,omitempty"`
	Pending     *PlanStatus       `json:"pending,omitempty"`
	Problem     string            `json:"problem,omitempty"` // why a new plan was not possible
	Workers     []WorkerStatus    `json:"workers"`           // in order of hosts, nodes and ids; lost ones too, for a while
	Foreign     map[string]string `json:"foreign,omitempty"` // workers that serve another coordinator → its instance
	Events      []Event           `json:"events"`            // the latest, oldest first
	Totals      Totals            `json:"totals"`
}

// StateLost is the state of a worker that can't be used; Problem says why.
const StateLost = "lost"

// PlanStatus is a plan's state.
type PlanStatus struct {
	Epoch    uint64   `json:"epoch"`
	Phase    string   `json:"phase"`  // active, computing, preparing or committing
	Reason   string   `json:"reason"` // what it was made for; "" for a former leader's
	Moved    int64    `json:"moved_bytes"`
	Replicas int      `json:"replicas"` // copies of expert parts beyond the first
	Workers  []string `json:"workers"`
	Missing  []string `json:"missing,omitempty"` // workers that don't serve it (yet)
}

// WorkerStatus is a worker's state.
type WorkerStatus struct {
	ID            string                `json:"id"`
	Host          string                `json:"host"`
	Node          int                   `json:"node"`
	PID           int                   `json:"pid"`
	State         string                `json:"state"`             // lost, draining, or what it says of itself: idle, loading, ready, failed
	Usable        bool                  `json:"usable"`            // work of the active plan can be sent to it
	Problem       string                `json:"problem,omitempty"` // why not
	Epoch         uint64                `json:"epoch"`             // of its newest assignment
	Serves        []uint64              `json:"serves"`            // epochs
	Parts         int                   `json:"expert_parts"`      // that the active plan gives it
	Primaries     int                   `json:"primary_parts"`     // of them those that it is the first owner of
	Bytes         int64                 `json:"bytes"`             // packed, of these parts
	ResidentParts int                   `json:"resident_parts"`    // of them those that are in its memory
	PendingParts  int                   `json:"pending_parts"`     // that the pending plan gives it
	LoadedBytes   int64                 `json:"loaded_bytes"`      // while it loads
	TotalBytes    int64                 `json:"total_bytes"`
	Capacity      int64                 `json:"capacity_bytes"`
	RSSAnon       int64                 `json:"rss_anon_bytes"`
	Threads       int                   `json:"threads"`
	Kernels       string                `json:"kernels"`
	Queue         int                   `json:"queue"`
	Bandwidth     float64               `json:"bytes_per_second"` // packed bytes that it computes; 0: not known yet
	LayerTimes    []transport.LayerTime `json:"layer_times,omitempty"`
	Arena         transport.ArenaReport `json:"arena"`
	Pages         transport.PagesReport `json:"pages"`
	Lane          string                `json:"lane"`

	Residency transport.ResidencyReport `json:"residency"`

	Quiet  float64  `json:"quiet_seconds"` // since its last beat
	Losses int      `json:"losses"`        // how often it was lost, lately
	Notes  []string `json:"notes,omitempty"`
}

// Status gives the present state.
func (m *Members) Status() Status {
	m.mu.Lock()
	defer m.mu.Unlock()
	t := m.table
	s := Status{Time: time.Now(), Coordinator: m.o.Instance, Term: m.o.Term, Ready: t.allCovered(), Uncovered: t.coverage().parts,
		Parts: len(m.o.Model.Layers) * m.o.Model.Experts * m.o.Model.Parts, Foreign: maps.Clone(t.foreign), Events: append([]Event{}, m.events...), Totals: m.totals}
	for _, n := range m.o.Model.PartBytes {
		s.PartBytes += n * int64(m.o.Model.Experts) * int64(len(m.o.Model.Layers))
	}
	if !s.Ready {
		s.Waiting = t.status(t.minimum)
	}
	if t.problem != nil {
		s.Problem = t.problem.Error()
	}
	if t.active != nil {
		s.Active = m.planStatus(t.active, "active", m.reason, m.bytesMoved)
	}
	if p := t.pending; p != nil {
		s.Pending = &PlanStatus{Epoch: p.epoch, Phase: p.phase.String(), Reason: p.reason}
		if p.plan != nil {
			_, toLoad := p.plan.Moved(m.o.Model, p.before)
			s.Pending = m.planStatus(p.plan, p.phase.String(), p.reason, toLoad)
		}
	}
	primaries := map[string]int{}
	if t.active != nil {
		for _, layer := range t.active.Owners {
			for _, owners := range layer {
				primaries[owners[0]]++
			}
		}
	}
	s.Workers = make([]WorkerStatus, 0, len(t.members))
	for id := range t.members {
		w := m.workerStatus(id)
		w.Primaries = primaries[id]
		s.Workers = append(s.Workers, w)
	}
	slices.SortFunc(s.Workers, compareWorkers)
	return s
}

// compareWorkers orders by host, node and id.
func compareWorkers(a, b WorkerStatus) int {
	return cmp.Or(strings.Compare(a.Host, b.Host), cmp.Compare(a.Node, b.Node), strings.Compare(a.ID, b.ID))
}

func (p phase) String() string {
	return [...]string{computing: "computing", preparing: "preparing", committing: "committing"}[p]
}

func (m *Members) planStatus(plan *placement.Plan, phase, reason string, moved int64) *PlanStatus {
	s := &PlanStatus{Epoch: plan.Epoch, Phase: phase, Reason: reason, Moved: moved, Workers: slices.Sorted(maps.Keys(plan.Owned))}
	for _, layer := range plan.Owners {
		for _, owners := range layer {
			s.Replicas += len(owners) - 1
		}
	}
	for _, id := range s.Workers {
		if w := m.table.members[id]; w == nil || !m.table.holds(w, plan.Epoch) {
			s.Missing = append(s.Missing, id)
		}
	}
	return s
}

func (m *Members) workerStatus(id string) WorkerStatus {
	w := m.table.members[id]
	b := &w.beat
	s := WorkerStatus{ID: id, Host: b.Host, Node: b.Node, PID: b.PID, State: string(b.State), Epoch: b.Epoch, Serves: slices.Clone(b.Serves),
		LoadedBytes: b.LoadedBytes, TotalBytes: b.TotalBytes, Capacity: b.Capacity, RSSAnon: b.RSSAnon, Threads: b.Threads, Kernels: b.Kernels,
		Queue: b.Queue, Bandwidth: bandwidth(b), LayerTimes: slices.Clone(b.LayerTimes), Arena: b.Arena, Pages: b.Pages, Lane: m.o.Requester.Lane(id),
		Quiet: float64(w.quiet) / ticksPerSecond, Losses: w.losses, Notes: slices.Clone(b.Notes), ResidentParts: m.ledger.resident(id),
		Residency: b.Residency}
	if err := m.table.usable(id); err != nil {
		s.Problem = err.Error()
	}
	s.Usable = s.Problem == ""
	switch {
	case w.lost != "":
		s.State, s.Quiet = StateLost, float64(w.quiet+w.lostFor)/ticksPerSecond
	case w.draining:
		s.State = string(transport.StateDraining)
	}
	if plan := m.table.active; plan != nil {
		s.Bytes = plan.Bytes(m.o.Model, id)
		for _, items := range plan.Owned[id] {
			s.Parts += len(items)
		}
	}
	if p := m.table.pending; p != nil && p.plan != nil {
		for _, items := range p.plan.Owned[id] {
			s.PendingParts += len(items)
		}
	}
	return s
}
