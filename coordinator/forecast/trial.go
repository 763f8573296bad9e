package forecast

import (
	"slices"
	"sort"
)

// trial is one layer of one random step; its memory is used again.
type trial struct {
	m     *Model
	o     Options
	nodes []node

	rows   []int     // per node: rows that need it
	last   []int     // per node: the last row that counted
	bytes  []float64 // per node: of distinct expert parts
	macs   []float64 // per node
	seen   []bool    // per expert part
	picked []int     // distinct expert parts
	owner  []int     // per expert part: the node that computes it in this layer, where it is seen
}

func newTrial(m *Model, o Options, nodes []node) *trial {
	items := m.Experts * m.Parts
	return &trial{m: m, o: o, nodes: nodes, rows: make([]int, len(nodes)), last: make([]int, len(nodes)), bytes: make([]float64, len(nodes)),
		macs: make([]float64, len(nodes)), seen: make([]bool, items), owner: make([]int, items)}
}

// draw chooses a row's experts, without repetition.
func (r *routing) draw(layer int) []int32 {
	order := r.layers[layer]
	r.chosen = r.chosen[:0]
	for len(r.chosen) < r.topK {
		x := r.random.Float64() * r.below[r.experts]
		rank := sort.SearchFloat64s(r.below[1:r.experts], x)
		if e := order[rank]; !slices.Contains(r.chosen, e) {
			r.chosen = append(r.chosen, e)
		}
	}
	return r.chosen
}

// route draws a layer's rows and gives each expert part to the owner that has the fewest bytes to read so far, nearly as
// dispatch does.
func (t *trial) route(r *routing, layer int, owners [][]string, number map[string]int) {
	clear(t.rows)
	clear(t.bytes)
	clear(t.macs)
	for i := range t.last {
		t.last[i] = -1
	}
	for _, item := range t.picked {
		t.seen[item] = false
	}
	t.picked = t.picked[:0]
	for row := range t.o.Rows {
		for _, expert := range r.draw(layer) {
			for part := range t.m.Parts {
				item := int(expert)*t.m.Parts + part
				if !t.seen[item] {
					t.seen[item] = true
					t.picked = append(t.picked, item)
					best := number[owners[item][0]]
					for _, id := range owners[item][1:] {
						if n := number[id]; t.bytes[n] < t.bytes[best] {
							best = n
						}
					}
					t.owner[item] = best
					t.bytes[best] += float64(t.m.PartBytes[part])
				}
				n := t.owner[item]
				t.macs[n] += float64(t.m.PartWeights[part])
				if t.last[n] != row {
					t.last[n] = row
					t.rows[n]++
				}
			}
		}
	}
}

// cost is the layer's time, and its bytes to and from other hosts.
func (t *trial) cost() (slowest Step, sent float64) {
	asked := 0
	for _, rows := range t.rows {
		if rows > 0 {
			asked++
		}
	}
	// Half of it is for sending, one worker after another; answers are taken while others are waited for, but for the last.
	own := float64(asked+1) * t.o.PerWorkerUS / 2 * 1e-6
	for i := range t.nodes {
		if t.rows[i] == 0 {
			continue
		}
		s, wire := t.nodes[i].answer(t.m, t.rows[i], t.bytes[i], t.macs[i], t.o.Reach)
		sent += wire
		s.Coordinator = own
		if s.Seconds() > slowest.Seconds() {
			slowest = s
		}
	}
	return slowest, sent
}

// answer is what a worker takes for a share of some rows, with these bytes of distinct expert parts and multiply-adds, until the coordinator has
// its answer; and the bytes that this moves between hosts.
func (n *node) answer(m *Model, rows int, bytes, macs, reach float64) (s Step, wire float64) {
	s.Network = n.host.RoundTripUS * 1e-6
	if !n.local {
		wire = float64(rows) * float64(m.rowBytes()+m.sumBytes())
		s.Network += wire * 8 / (n.host.NetworkGbit * 1e9)
	}
	read, compute := bytes/(n.host.ReadGBps*1e9*reach), 2*macs/(n.host.ComputeGOPS*1e9*reach)
	if read >= compute {
		s.Memory = read
	} else {
		s.Compute = compute
	}
	s.Disk = (1 - n.Resident) * bytes * float64(n.host.Nodes) / (n.host.DiskGBps * 1e9) // the host's nodes share it
	return s, wire
}

func (t *trial) total() (sum float64) {
	for _, b := range t.bytes {
		sum += b
	}
	return sum
}

func (t *trial) slowest() float64 { return slices.Max(t.bytes) }
