package serve

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/moepool/moepool/coordinator"
	"github.com/moepool/moepool/coordinator/membership"
	"github.com/moepool/moepool/coordinator/placement"
)

// Placement is what `moepool placement show` shows: who owns which experts.
type Placement struct {
	Epoch   uint64                 `json:"epoch"`
	Reason  string                 `json:"reason"`  // what it was made for
	Experts int                    `json:"experts"` // of a layer
	Parts   int                    `json:"parts"`   // of an expert
	Layers  []int                  `json:"layers"`  // that have experts
	Workers []PlacedWorker         `json:"workers"` // in order of hosts, nodes and ids
	Pending *membership.PlanStatus `json:"pending,omitempty"`
}

// PlacedWorker is a worker's share of a placement.
type PlacedWorker struct {
	ID        string         `json:"id"`
	Host      string         `json:"host"`
	Node      int            `json:"node"`
	Usable    bool           `json:"usable"`
	Parts     int            `json:"expert_parts"`
	Primaries int            `json:"primary_parts"` // of them those that it is the first owner of
	Bytes     int64          `json:"bytes"`
	Owned     map[int]string `json:"owned"` // layer → experts, as "0-3,8"; with several parts an expert part is expert·parts+part
}

// errNoPlacement says what to do.
var errNoPlacement = errors.New("there is no placement yet: the coordinator waits for its workers (moepool status)")

// placement reads the active plan.
func (s *Server) placement() (*Placement, error) {
	members := s.coordinator.Members()
	if members == nil {
		return nil, &coordinator.NotLeadingError{}
	}
	status, plan := members.Status(), members.Plan()
	if plan == nil || status.Active == nil {
		return nil, errNoPlacement
	}
	p := describe(plan)
	p.Parts, p.Pending = s.coordinator.Identity.Parts, status.Pending
	p.Experts = s.coordinator.Checkpoint.Config().Experts
	if status.Active.Epoch == plan.Epoch {
		p.Reason = status.Active.Reason
	}
	for i := range p.Workers {
		w := &p.Workers[i]
		at := slices.IndexFunc(status.Workers, func(s membership.WorkerStatus) bool { return s.ID == w.ID })
		if at >= 0 {
			is := status.Workers[at]
			w.Host, w.Node, w.Usable, w.Bytes = is.Host, is.Node, is.Usable, is.Bytes
		}
	}
	slices.SortFunc(p.Workers, func(a, b PlacedWorker) int {
		return strings.Compare(fmt.Sprintf("%s %6d %s", a.Host, a.Node, a.ID), fmt.Sprintf("%s %6d %s", b.Host, b.Node, b.ID))
	})
	return p, nil
}

// describe turns a plan round.
func describe(plan *placement.Plan) *Placement {
	p := &Placement{Epoch: plan.Epoch, Layers: slices.Sorted(maps.Keys(plan.Owners)), Workers: []PlacedWorker{}}
	primaries := map[string]int{}
	for _, layer := range plan.Owners {
		for _, owners := range layer {
			primaries[owners[0]]++
		}
	}
	for _, id := range slices.Sorted(maps.Keys(plan.Owned)) {
		w := PlacedWorker{ID: id, Primaries: primaries[id], Owned: map[int]string{}}
		for layer, items := range plan.Owned[id] {
			w.Parts += len(items)
			w.Owned[layer] = ranges(items)
		}
		p.Workers = append(p.Workers, w)
	}
	return p
}

// ranges writes ascending numbers as "0-3,8".
func ranges(numbers []uint32) string {
	var text []byte
	for i := 0; i < len(numbers); {
		end := i
		for end+1 < len(numbers) && numbers[end+1] == numbers[end]+1 {
			end++
		}
		if i > 0 {
			text = append(text, ',')
		}
		text = strconv.AppendUint(text, uint64(numbers[i]), 10)
		if end > i {
			text = strconv.AppendUint(append(text, '-'), uint64(numbers[end]), 10)
		}
		i = end + 1
	}
	return string(text)
}
