// Package placement maps expert parts to workers. Pure: model and workers in, versioned plan out. It must not know how
// workers are found or reached.
//
// The rule: in each layer, expert part number expert·parts+part goes to worker (number mod workers), workers in order of their
// ids. So P parts over P workers give each worker one part of every expert, and a layer's parts are spread evenly within one.
package placement

import (
	"errors"
	"fmt"
	"slices"
	"strings"
)

// Model is what placement needs to know.
type Model struct {
	Layers    []int // numbers of the layers that have experts
	Experts   int
	Parts     int
	PartBytes []int64 // packed bytes of one slot of part p
}

// Worker is where expert parts can go.
type Worker struct {
	ID        string
	Host      string
	Node      int
	Capacity  int64   // bytes; 0 is unknown
	Bandwidth float64 // bytes of expert parts that it reads and computes in a second; 0 is unknown
}

// Options are what a placement can take into account beside model and workers. The zero value is a placement without replicas for
// experts that are chosen equally often.
type Options struct {
	Counts   map[int][]float64 // layer → expert → rows that were routed to it; a layer that is missing is unknown
	Batches  []int             // numbers of rows of a step that the plan is made for; empty: 1, 8 and 64
	Replicas int               // most workers that own one expert part; 0 and 1: no replicas
	Previous *Plan             // what is kept where it can be; nil: nothing is placed yet
}

// Plan is a placement: Owned[worker id][layer] lists expert·parts+part ascending, primaries and replicas; a layer of which a worker
// owns nothing is missing. Every expert part has at least one owner, and no worker twice. A plan is never changed.
type Plan struct {
	Epoch  uint64
	Owned  map[string]map[int][]uint32
	Owners map[int][][]string // layer → expert·parts+part → worker ids, primary first, then replicas
}

// CapacityError says that the experts of a worker don't fit into its memory.
type CapacityError struct {
	Worker            string
	Needed, Available int64 // bytes of that worker
	TotalNeeded       int64 // bytes of all experts
	TotalAvailable    int64 // bytes of all workers; 0 if one of them is unknown
	Workers           int
}

func (e *CapacityError) Error() string {
	total := fmt.Sprintf("%s have %d bytes", count(e.Workers), e.TotalAvailable)
	if e.TotalAvailable == 0 {
		total = count(e.Workers) + " share them"
	}
	return fmt.Sprintf("worker %s needs %d bytes for its experts and has %d; all experts need %d bytes, %s", e.Worker, e.Needed, e.Available,
		e.TotalNeeded, total)
}

func count(workers int) string {
	if workers == 1 {
		return "1 worker"
	}
	return fmt.Sprintf("%d workers", workers)
}

// Compute gives the plan of an epoch; the order of workers doesn't matter. A *CapacityError says how many bytes are needed
// and how many there are.
func Compute(epoch uint64, m Model, workers []Worker, o Options) (*Plan, error) {
	workers = slices.SortedFunc(slices.Values(workers), func(a, b Worker) int { return strings.Compare(a.ID, b.ID) })
	if err := check(m, workers); err != nil {
		return nil, err
	}
	plan := &Plan{Epoch: epoch, Owned: make(map[string]map[int][]uint32, len(workers)), Owners: make(map[int][][]string, len(m.Layers))}
	bytes := make([]int64, len(workers))
	items := m.Experts * m.Parts
	for _, w := range workers {
		plan.Owned[w.ID] = map[int][]uint32{}
	}
	for _, layer := range m.Layers {
		owners := make([][]string, items)
		for i, w := range workers {
			var owned []uint32
			for item := i; item < items; item += len(workers) {
				owned = append(owned, uint32(item))
				owners[item] = []string{w.ID}
				bytes[i] += m.PartBytes[item%m.Parts]
			}
			if owned != nil {
				plan.Owned[w.ID][layer] = owned
			}
		}
		plan.Owners[layer] = owners
	}
	if err := fits(workers, bytes); err != nil {
		return nil, err
	}
	return plan, nil
}

// check refuses what no plan can be made of.
func check(m Model, workers []Worker) error {
	switch {
	case len(workers) == 0:
		return errors.New("placement: there are no workers")
	case m.Experts < 1 || m.Parts < 1:
		return fmt.Errorf("placement: %d experts in %d parts; both must be at least 1", m.Experts, m.Parts)
	case len(m.PartBytes) != m.Parts:
		return fmt.Errorf("placement: sizes of %d parts given, there are %d parts", len(m.PartBytes), m.Parts)
	}
	for i, w := range workers {
		if w.ID == "" {
			return errors.New("placement: a worker has no id")
		}
		if i > 0 && workers[i-1].ID == w.ID {
			return fmt.Errorf("placement: two workers have the id %s", w.ID)
		}
	}
	layers := slices.Sorted(slices.Values(m.Layers))
	for i, layer := range layers {
		if i > 0 && layers[i-1] == layer {
			return fmt.Errorf("placement: layer %d is named twice", layer)
		}
	}
	return nil
}

// fits compares bytes with capacities.
func fits(workers []Worker, bytes []int64) error {
	var needed, available int64
	unknown := false
	for i, w := range workers {
		needed += bytes[i]
		available += w.Capacity
		unknown = unknown || w.Capacity == 0
	}
	if unknown {
		available = 0
	}
	for i, w := range workers {
		if w.Capacity != 0 && bytes[i] > w.Capacity {
			return &CapacityError{w.ID, bytes[i], w.Capacity, needed, available, len(workers)}
		}
	}
	return nil
}

// Bytes is what a worker owns, packed.
func (p *Plan) Bytes(m Model, worker string) int64 {
	var n int64
	for _, parts := range p.Owned[worker] {
		for _, item := range parts {
			n += m.PartBytes[int(item)%m.Parts]
		}
	}
	return n
}
