// Package placement maps expert parts to workers. Pure: model, workers, observed routing and the plan so far in, versioned plan out. It
// must not know how workers are found or reached, nor who observes the routing.
//
// The goal is the least expected time of a layer's slowest worker, for the numbers of rows that steps have (docs/placement.md has the
// model of cost and measurements):
//
//   - All parts of an expert go to one host, and there to as many workers (NUMA nodes) as the host has.
//   - An expert's load follows from how often it was chosen (load.go). Loads are spread in proportion to the workers' bandwidths, as far as
//     their capacities allow (seat.go), then evened out by moves and exchanges (improve.go).
//   - Experts that the same rows choose are kept apart, if such pairs were observed (pairs.go): for few rows that matters more than even loads.
//   - Memory that is left holds replicas: further copies, first of what has the highest load, on other workers and if possible on
//     other hosts (replicas.go).
//   - What the plan so far placed stays where it is. What lost its owner is served by its replicas, or goes to the least loaded worker. Only
//     if a layer is then slower than a fresh placement by more than Options.Tolerance, parts move until it is not (keep.go).
//
// Without observed routing, replicas and a plan so far, on equal workers of one host or with one part, expert part number expert·parts+part goes to
// worker (number mod workers), workers in order of their ids.
//
// Loads are added as integers, and every float operation is rounded on its own, so that every coordinator computes the same plan.
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
	TopK      int     // experts that a row chooses; 0: unknown, taken for min(8, Experts)
}

// Worker is where expert parts can go.
type Worker struct {
	ID        string
	Host      string  // workers with the same name are nodes of one host
	Node      int     // NUMA node
	Capacity  int64   // bytes; 0 is unknown, and then unlimited
	Bandwidth float64 // bytes of expert parts that it reads and computes in a second; 0 is unknown, and then the mean of the known
}

// Options are what a placement can take into account beside model and workers. The zero value is a placement without replicas for
// experts that are chosen equally often.
type Options struct {
	Counts       map[int][]float64 // layer → expert → rows that were routed to it; a layer that is missing is unknown
	Pairs        map[int][]float64 // layer → expert·experts+expert → rows of Counts that were routed to both; symmetric; a layer that is missing is unknown
	Batches      []int             // numbers of rows of a step that the plan is made for; empty: 1, 8 and 64
	Replicas     int               // most workers that own one expert part; 0 and 1: no replicas
	ReplicaBytes int64             // most bytes of all replicas; 0: what the capacities leave
	Previous     *Plan             // what is kept where it can be; nil: nothing is placed yet
	Tolerance    float64           // how much slower than a fresh placement a layer may be before parts move; 0: DefaultTolerance
}

// DefaultTolerance is the Tolerance of Options that name none.
const DefaultTolerance = 0.05

// LossTolerance is the least Tolerance of a plan that follows the loss of a worker: first of all everything has to be owned again, and what moves
// for balance alone would only make that late.
const LossTolerance = 0.5

// MaxBatch bounds the numbers of Options.Batches.
const MaxBatch = 4096

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
	if e.Workers == 1 {
		total = fmt.Sprintf("it has %d bytes", e.TotalAvailable)
	}
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
// and how many there are. A Previous plan that isn't one of the model is an error.
func Compute(epoch uint64, m Model, workers []Worker, o Options) (*Plan, error) {
	workers = slices.SortedFunc(slices.Values(workers), func(a, b Worker) int { return strings.Compare(a.ID, b.ID) })
	if err := check(m, workers, &o); err != nil {
		return nil, err
	}
	p := newPlanner(m, workers, &o)
	if err := p.placeFresh(); err != nil {
		return nil, err
	}
	if o.Previous == nil {
		return p.plan(epoch), nil
	}
	kept := newPlanner(m, workers, &o)
	if !kept.keep(o.Previous, p) {
		return p.plan(epoch), nil // the memory is so tight that what stays leaves no room for the rest
	}
	return kept.plan(epoch), nil
}

// check refuses what no plan can be made of.
func check(m Model, workers []Worker, o *Options) error {
	switch {
	case len(workers) == 0:
		return errors.New("placement: there are no workers")
	case m.Experts < 1 || m.Parts < 1:
		return fmt.Errorf("placement: %d experts in %d parts; both must be at least 1", m.Experts, m.Parts)
	case len(m.PartBytes) != m.Parts:
		return fmt.Errorf("placement: sizes of %d parts given, there are %d parts", len(m.PartBytes), m.Parts)
	case m.TopK < 0 || m.TopK > m.Experts:
		return fmt.Errorf("placement: a row chooses %d of %d experts", m.TopK, m.Experts)
	}
	for part, bytes := range m.PartBytes {
		if bytes < 0 {
			return fmt.Errorf("placement: part %d has %d bytes", part, bytes)
		}
	}
	for i, w := range workers {
		if w.ID == "" {
			return errors.New("placement: a worker has no id")
		}
		if i > 0 && workers[i-1].ID == w.ID {
			return fmt.Errorf("placement: two workers have the id %s", w.ID)
		}
		if w.Capacity < 0 || !(w.Bandwidth >= 0 && w.Bandwidth < 1e300) {
			return fmt.Errorf("placement: worker %s has a capacity of %d bytes and a bandwidth of %g; neither can be negative", w.ID, w.Capacity, w.Bandwidth)
		}
	}
	layers := slices.Sorted(slices.Values(m.Layers))
	for i, layer := range layers {
		if i > 0 && layers[i-1] == layer {
			return fmt.Errorf("placement: layer %d is named twice", layer)
		}
	}
	return o.check(m)
}

func (o *Options) check(m Model) error {
	for _, layer := range m.Layers {
		counts, ok := o.Counts[layer]
		if !ok {
			continue
		}
		if len(counts) != m.Experts {
			return fmt.Errorf("placement: layer %d has counts of %d experts, there are %d", layer, len(counts), m.Experts)
		}
		for expert, n := range counts {
			if !(n >= 0 && n <= 1e15) {
				return fmt.Errorf("placement: layer %d, expert %d was chosen %g times; valid are 0 to 1e15", layer, expert, n)
			}
		}
	}
	for _, layer := range m.Layers {
		pairs, ok := o.Pairs[layer]
		switch {
		case !ok:
			continue
		case len(pairs) != m.Experts*m.Experts || o.Counts[layer] == nil:
			return fmt.Errorf("placement: layer %d has counts of %d experts and of %d pairs, there are %d and %d", layer, len(o.Counts[layer]), len(pairs),
				m.Experts, m.Experts*m.Experts)
		}
		for i, n := range pairs {
			a, b := i/m.Experts, i%m.Experts
			if counts := o.Counts[layer]; !(n >= 0 && n <= min(counts[a], counts[b])) || n != pairs[b*m.Experts+a] {
				return fmt.Errorf("placement: layer %d, experts %d and %d were chosen together %g and %g times, alone %g and %g", layer, a, b, n,
					pairs[b*m.Experts+a], counts[a], counts[b])
			}
		}
	}
	for _, b := range o.Batches {
		if b < 1 || b > MaxBatch {
			return fmt.Errorf("placement: a batch of %d rows; valid are 1 to %d", b, MaxBatch)
		}
	}
	if o.Replicas < 0 || o.ReplicaBytes < 0 || !(o.Tolerance >= 0) {
		return fmt.Errorf("placement: %d replicas of %d bytes, tolerance %g; none can be negative", o.Replicas, o.ReplicaBytes, o.Tolerance)
	}
	if o.Previous != nil {
		if err := o.Previous.Validate(m); err != nil {
			return fmt.Errorf("the plan so far: %w", err)
		}
	}
	return nil
}
