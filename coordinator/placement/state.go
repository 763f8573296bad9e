package placement

import (
	"math"
	"slices"
)

// planner is a placement in the making. Workers are numbers, in order of their ids.
type planner struct {
	model     Model
	workers   []Worker
	options   *Options
	batches   []int
	speed     []float64 // of each worker, 1 is the mean
	capacity  []int64   // bytes; unlimited if unknown
	used      []int64   // bytes
	hosts     [][]int   // workers of each host, hosts in order of their first workers
	hostOf    []int
	joined    []bool   // workers that the plan so far doesn't have
	layers    []*layer // in order of their numbers
	tolerance float64
}

const unlimited = math.MaxInt64 / 4

// slowest is the least speed that a worker is taken for, relative to the mean: a measurement from a start isn't believed beyond it.
const slowest = 1.0 / 16

func newPlanner(m Model, workers []Worker, o *Options) *planner {
	p := &planner{model: m, workers: workers, options: o, batches: o.Batches, tolerance: o.Tolerance}
	if len(p.batches) == 0 {
		p.batches = []int{1, 8, 64}
	}
	if p.tolerance == 0 {
		p.tolerance = DefaultTolerance
	}
	if p.model.TopK == 0 {
		p.model.TopK = min(8, m.Experts)
	}
	p.joined = make([]bool, len(workers))
	p.used, p.capacity, p.speed, p.hostOf = make([]int64, len(workers)), make([]int64, len(workers)), speeds(workers), make([]int, len(workers))
	hosts := map[string]int{}
	for i, w := range workers {
		if p.capacity[i] = w.Capacity; w.Capacity == 0 {
			p.capacity[i] = unlimited
		}
		h, ok := hosts[w.Host]
		if !ok {
			h = len(p.hosts)
			hosts[w.Host], p.hosts = h, append(p.hosts, nil)
		}
		p.hostOf[i], p.hosts[h] = h, append(p.hosts[h], i)
	}
	for _, number := range slices.Sorted(slices.Values(m.Layers)) {
		p.layers = append(p.layers, newLayer(p, number))
	}
	return p
}

// speeds are bandwidths relative to the mean of the known ones.
func speeds(workers []Worker) []float64 {
	sum, known := 0.0, 0
	for _, w := range workers {
		if w.Bandwidth > 0 {
			sum, known = sum+w.Bandwidth, known+1
		}
	}
	s := make([]float64, len(workers))
	for i, w := range workers {
		if s[i] = 1; w.Bandwidth > 0 {
			s[i] = max(slowest, w.Bandwidth/(sum/float64(known)))
		}
	}
	return s
}

// plan is what was placed.
func (p *planner) plan(epoch uint64) *Plan {
	plan := &Plan{Epoch: epoch, Owned: make(map[string]map[int][]uint32, len(p.workers)), Owners: make(map[int][][]string, len(p.layers))}
	for _, w := range p.workers {
		plan.Owned[w.ID] = map[int][]uint32{}
	}
	for _, l := range p.layers {
		owners := make([][]string, len(l.owners))
		for item, workers := range l.owners {
			for _, w := range workers {
				id := p.workers[w].ID
				owners[item] = append(owners[item], id)
				plan.Owned[id][l.number] = append(plan.Owned[id][l.number], uint32(item))
			}
		}
		plan.Owners[l.number] = owners
	}
	return plan
}

// layer is a layer's placement: owners, and what they make of the workers' loads.
type layer struct {
	p      *planner
	number int
	routing
	wanted []int      // expert → owners that its parts are meant to have
	copies []int      // expert → owners that its load is divided by: as many as are wanted, later as there are
	loads  [][][]load // expert → copies-1 → batch → load of an average part in each of so many copies
	ratio  []float64  // part → its size relative to the average
	ideal  []float64  // batch → load of each worker if all were spread evenly, in fixed point; at least 1
	shared *shared    // nil if pairs are unknown
	owners [][]int32  // expert·parts+part → workers, primary first
	sums   []load     // worker·batches + batch

	// What follows from sums, for each worker.
	level   []float64 // sum over the batches of sums / speed / ideal
	trials  int       // changes that were looked at
	penalty []float64 // sum over the batches of its eighth power: of all workers, a smooth form of the maximum
}

func newLayer(p *planner, number int) *layer {
	m, n := &p.model, len(p.workers)
	l := &layer{p: p, number: number, routing: newRouting(p.options.Counts[number], m.Experts, m.TopK)}
	l.wanted, l.copies = make([]int, m.Experts), make([]int, m.Experts)
	l.loads, l.owners = make([][][]load, m.Experts), make([][]int32, m.Experts*m.Parts)
	l.sums, l.level, l.penalty = make([]load, n*len(p.batches)), make([]float64, n), make([]float64, n)
	l.ratio = make([]float64, m.Parts)
	var total int64
	for _, b := range m.PartBytes {
		total += b
	}
	for part, b := range m.PartBytes {
		// Of a layer without observed routing parts count as equal, so that the plan is the simple one.
		if l.ratio[part] = 1; total > 0 && l.known {
			l.ratio[part] = float64(b) * float64(m.Parts) / float64(total)
		}
	}
	speed := 0.0
	for _, s := range p.speed {
		speed += s
	}
	l.ideal = make([]float64, len(p.batches))
	for e := range m.Experts {
		l.wanted[e], l.copies[e] = 1, 1
		for b, x := range l.expert(e) {
			l.ideal[b] += float64(float64(x) * float64(m.Parts))
		}
	}
	for b := range l.ideal {
		l.ideal[b] = max(1, l.ideal[b]/speed)
	}
	if pairs := p.options.Pairs[number]; pairs != nil {
		l.shared = newShared(l, p.options.Counts[number], pairs)
	}
	return l
}

// expert is the load, for each batch size, of an average part of an expert on each of its owners, who share its rows.
func (l *layer) expert(e int) []load {
	n := l.copies[e]
	for len(l.loads[e]) < n {
		n := float64(len(l.loads[e]) + 1)
		loads := make([]load, len(l.p.batches))
		for b, batch := range l.p.batches {
			loads[b] = load(float64(expertLoad(l.probability[e], batch)) / n)
		}
		l.loads[e] = append(l.loads[e], loads)
	}
	return l.loads[e][n-1]
}

// weight is an expert's load on each owner in one number.
func (l *layer) weight(e int) float64 {
	sum := 0.0
	for b, x := range l.expert(e) {
		sum += float64(x) / l.ideal[b]
	}
	return sum
}

// add gives an item to a worker, as its last owner.
func (l *layer) add(item, worker int) { l.insert(item, worker, len(l.owners[item])) }

// insert gives an item to a worker, as owner number at.
func (l *layer) insert(item, worker, at int) {
	l.owners[item] = slices.Insert(l.owners[item], at, int32(worker))
	l.change(item, worker, 1)
}

// remove takes an item from a worker and tells which of the owners it was.
func (l *layer) remove(item, worker int) int {
	at := slices.Index(l.owners[item], int32(worker))
	l.owners[item] = slices.Delete(l.owners[item], at, at+1)
	l.change(item, worker, -1)
	return at
}

// setCopies changes how many owners an expert's load is divided by.
func (l *layer) setCopies(e, n int) {
	if n == l.copies[e] {
		return
	}
	for item := e * l.p.model.Parts; item < (e+1)*l.p.model.Parts; item++ {
		for _, w := range l.owners[item] {
			l.change(item, int(w), -1)
		}
	}
	l.copies[e] = n
	for item := e * l.p.model.Parts; item < (e+1)*l.p.model.Parts; item++ {
		for _, w := range l.owners[item] {
			l.change(item, int(w), 1)
		}
	}
}

func (l *layer) change(item, worker int, sign int64) {
	parts := l.p.model.Parts
	part := item % parts
	l.p.used[worker] += sign * l.p.model.PartBytes[part]
	sums := l.sums[worker*len(l.p.batches):]
	for b, x := range l.expert(item / parts) {
		x = x.times(l.ratio[part])
		sums[b] += load(sign) * x
	}
	variance := 0.0
	if l.shared != nil {
		variance = l.shared.change(worker, item/parts, float64(float64(sign)*l.amount(item)))
	}
	l.level[worker], l.penalty[worker] = l.judge(worker, sums[:len(l.p.batches)], variance)
}

// amountOf is how much an owner of some of an expert's parts, of ratio times the average size together, has to do for a row that chooses it: a fraction of all parts. Replicas
// count half of their share, since a step uses them to even out what the others have to do.
func (l *layer) amountOf(e int, ratio float64) float64 {
	amount := ratio / float64(float64(l.p.model.Parts)*float64(l.copies[e]))
	if l.copies[e] > 1 {
		amount /= 2
	}
	return amount
}

// amount is amountOf one part.
func (l *layer) amount(item int) float64 {
	return l.amountOf(item/l.p.model.Parts, l.ratio[item%l.p.model.Parts])
}

// judge gives level and penalty of a worker with some expected loads, one for each batch size, and a variance of what it has of a row.
func (l *layer) judge(worker int, sums []load, variance float64) (level, penalty float64) {
	deviation := math.Sqrt(max(0, variance))
	for b, x := range sums {
		u := float64(x) / float64(l.p.speed[worker]*l.ideal[b])
		if l.shared != nil {
			u += float64(l.shared.scale[b]*deviation) / float64(l.p.speed[worker]*l.ideal[b])
		}
		level += u
		penalty += power(u, 8)
	}
	return level, penalty
}

// slowestWorker is the expected time of the slowest worker, relative to that of an even spread, averaged over the batch sizes.
func (l *layer) slowestWorker() float64 {
	sum := 0.0
	for b := range l.p.batches {
		most := 0.0
		for w, speed := range l.p.speed {
			x := float64(l.sums[w*len(l.p.batches)+b])
			if l.shared != nil {
				x += float64(l.shared.scale[b] * math.Sqrt(max(0, l.shared.variance[w])))
			}
			most = max(most, x/float64(speed*l.ideal[b]))
		}
		sum += most
	}
	return sum / float64(len(l.p.batches))
}
