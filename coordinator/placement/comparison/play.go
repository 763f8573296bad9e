package comparison

import (
	"math/rand/v2"
	"slices"

	"github.com/moepool/moepool/coordinator/placement"
	"github.com/moepool/moepool/coordinator/placement/division"
)

// Share is the part of a layer that its slowest worker does, averaged over layers and steps; an even spread over W workers is 1/W.
type Share struct {
	Time float64 // by the model of cost: the first row of an expert costs 1, each further one placement.RowCost
	Rows float64 // by rows times experts, EPLB's measure
}

// Play plays steps of so many rows, drawn from the trace, through a plan of whole experts on equal workers.
func Play(t *Trace, p *placement.Plan, workers []placement.Worker, batch, steps int, seed uint64) Share {
	r := rand.New(rand.NewPCG(seed, uint64(batch)))
	numbers := map[string]int32{}
	for i, w := range workers {
		numbers[w.ID] = int32(i)
	}
	owners := make([][][]int32, len(t.Rows))
	for layer := range t.Rows {
		owners[layer] = make([][]int32, t.Experts)
		for e, ids := range p.Owners[layer] {
			for _, id := range ids {
				owners[layer][e] = append(owners[layer][e], numbers[id])
			}
		}
	}
	var sum Share
	rows, pl := make([]int, batch), &player{}
	for range steps {
		for i := range rows {
			rows[i] = r.IntN(t.Len())
		}
		for layer := range t.Rows {
			s := pl.layer(t, layer, rows, owners[layer], len(workers))
			sum.Time += s.Time
			sum.Rows += s.Rows
		}
	}
	n := float64(steps * len(t.Rows))
	return Share{sum.Time / n, sum.Rows / n}
}

// player divides steps by package division.
type player struct {
	divider division.Divider
	items   []division.Item
	place   []int // expert → item + 1
}

func (p *player) layer(t *Trace, layer int, rows []int, owners [][]int32, workers int) Share {
	p.items, p.place = p.items[:0], append(p.place[:0], make([]int, t.Experts)...)
	for _, row := range rows {
		for _, e := range t.Row(layer, row) {
			if p.place[e] == 0 {
				p.items = append(p.items, division.Item{Owners: owners[e]})
				p.place[e] = len(p.items)
			}
			p.items[p.place[e]-1].Rows++
		}
	}
	p.divider.Divide(workers, p.items)
	total, count := 0, make([]int, workers)
	for _, it := range p.items {
		total += division.FirstRow - 1 + it.Rows
		for i, n := range it.Shares {
			count[it.Owners[i]] += n
		}
	}
	most := 0
	for w := range workers {
		most = max(most, p.divider.Load(w))
	}
	return Share{float64(most) / float64(total), float64(slices.Max(count)) / float64(len(rows)*t.TopK)}
}

// Compare makes a plan for equal workers by the counts of a trace's first half and plays the second one through it, in steps of so many rows, as many steps as rows take, and at
// least 16 steps. With replicas there is memory for an eighth more experts in each layer, and for one more on each worker at least.
func Compare(t *Trace, p Planner, workers, batch, rows int, replicas bool) (Share, error) {
	first, second := t.Halves()
	task := Task{Model: ModelOf(t), Workers: Workers(workers), Counts: first.Counts(), Pairs: first.Pairs(), Batch: batch}
	if replicas {
		task.Redundant = (t.Experts/8 + workers - 1) / workers * workers
	}
	plan, err := p.Plan(task)
	if err != nil {
		return Share{}, err
	}
	if err := plan.Validate(task.Model); err != nil {
		return Share{}, err
	}
	return Play(second, plan, task.Workers, batch, max(16, rows/batch), 1), nil
}
