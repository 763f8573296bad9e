package comparison

import (
	"fmt"
	"math/rand/v2"

	"github.com/moepool/moepool/coordinator/placement"
)

// Task is what a plan is made for.
type Task struct {
	Model     placement.Model // of whole experts
	Workers   []placement.Worker
	Counts    map[int][]float64 // as placement.Options has them
	Pairs     map[int][]float64
	Redundant int // experts beyond the model's that there is memory for in each layer
	Batch     int // rows of a step
}

// Planner is a way to place experts.
type Planner struct {
	Name string
	Plan func(Task) (*placement.Plan, error)
}

// Planners are ours and those that it is compared with.
func Planners() []Planner {
	return []Planner{
		{"moepool", planOurs},
		{"moepool, counts only", planByCounts},
		{"EPLB", planEPLB},
		{"round-robin", planRoundRobin},
		{"random", planRandom},
	}
}

// planOurs gives each worker the memory that EPLB's slots take.
func planOurs(t Task) (*placement.Plan, error) { return compute(t) }

// planByCounts knows no more than EPLB: how often each expert is chosen, and not which experts are chosen together.
func planByCounts(t Task) (*placement.Plan, error) {
	t.Pairs = nil
	return compute(t)
}

func compute(t Task) (*placement.Plan, error) {
	n := len(t.Workers)
	limited := make([]placement.Worker, n)
	for i, w := range t.Workers {
		w.Capacity = int64((t.Model.Experts+t.Redundant+n-1)/n*len(t.Model.Layers)) * t.Model.PartBytes[0]
		limited[i] = w
	}
	o := placement.Options{Counts: t.Counts, Pairs: t.Pairs, Batches: []int{t.Batch}, Replicas: 1}
	if t.Redundant > 0 {
		o.Replicas = n
	}
	return placement.Compute(1, t.Model, limited, o)
}

// planRoundRobin places expert number mod workers; redundant experts go on so, each to the worker after its first one.
func planRoundRobin(t Task) (*placement.Plan, error) {
	m, workers, redundant := t.Model, t.Workers, t.Redundant
	owners := map[int][][]int{}
	for _, layer := range m.Layers {
		owners[layer] = make([][]int, m.Experts)
		for slot := range m.Experts + redundant {
			e := slot % m.Experts
			w := (e + slot/m.Experts) % len(workers)
			owners[layer][e] = append(owners[layer][e], w)
		}
	}
	return planOf(m, workers, owners), nil
}

// planRandom gives every worker equally many experts, drawn; redundant ones are drawn, too.
func planRandom(t Task) (*placement.Plan, error) {
	m, workers, redundant := t.Model, t.Workers, t.Redundant
	r := rand.New(rand.NewPCG(1, uint64(len(workers))))
	owners := map[int][][]int{}
	for _, layer := range m.Layers {
		owners[layer] = make([][]int, m.Experts)
		for i, e := range r.Perm(m.Experts) {
			owners[layer][e] = []int{i % len(workers)}
		}
		for i, e := range r.Perm(m.Experts)[:redundant] {
			w := (owners[layer][e][0] + 1 + i%(len(workers)-1)) % len(workers)
			owners[layer][e] = append(owners[layer][e], w)
		}
	}
	return planOf(m, workers, owners), nil
}

// planOf makes a plan of workers' numbers: layer → expert → owners.
func planOf(m placement.Model, workers []placement.Worker, owners map[int][][]int) *placement.Plan {
	p := &placement.Plan{Epoch: 1, Owned: map[string]map[int][]uint32{}, Owners: map[int][][]string{}}
	for _, w := range workers {
		p.Owned[w.ID] = map[int][]uint32{}
	}
	for layer, experts := range owners {
		p.Owners[layer] = make([][]string, m.Experts)
		for e, numbers := range experts {
			for _, w := range numbers {
				id := workers[w].ID
				p.Owners[layer][e] = append(p.Owners[layer][e], id)
				p.Owned[id][layer] = append(p.Owned[id][layer], uint32(e))
			}
		}
	}
	return p
}

// Workers are n equal workers, each on a host of its own.
func Workers(n int) []placement.Worker {
	workers := make([]placement.Worker, n)
	for i := range workers {
		workers[i] = placement.Worker{ID: fmt.Sprintf("w%02d", i), Host: fmt.Sprintf("h%02d", i)}
	}
	return workers
}

// ModelOf is a model of whole experts that could have made a trace.
func ModelOf(t *Trace) placement.Model {
	m := placement.Model{Experts: t.Experts, Parts: 1, PartBytes: []int64{1 << 20}, TopK: t.TopK}
	for layer := range t.Rows {
		m.Layers = append(m.Layers, layer)
	}
	return m
}
