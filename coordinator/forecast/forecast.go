package forecast

import (
	"errors"
	"fmt"
	"math"
	"math/rand/v2"

	"github.com/moepool/moepool/coordinator/placement"
)

// Options say what is predicted.
type Options struct {
	Rows     int     // decoded rows of a step, at least 1: so many sequences at once
	Context  int     // positions that each row attends to
	Skew     float64 // exponent s of Zipf's law: expert of rank r is chosen in proportion to r^-s; 0: all alike
	Replicas int     // most copies of an expert part
	Trials   int     // random steps that are averaged; default 64
	Seed     uint64

	// Reach is the share of a host's measured bandwidth and peak that is reached over a step; default DefaultReach.
	Reach float64
	// PerWorkerUS is the coordinator's own time for each worker that it asks in a layer, µs; default DefaultPerWorkerUS.
	PerWorkerUS float64
}

// Defaults, from docs/benchmarks.md.
const (
	DefaultReach       = 0.8
	DefaultPerWorkerUS = 8
	defaultTrials      = 64
)

// ErrOptions is the error of options that can't be.
var ErrOptions = errors.New("forecast")

// check validates and fills defaults.
func (o *Options) check() error {
	if o.Trials == 0 {
		o.Trials = defaultTrials
	}
	if o.Reach == 0 {
		o.Reach = DefaultReach
	}
	if o.PerWorkerUS == 0 {
		o.PerWorkerUS = DefaultPerWorkerUS
	}
	switch {
	case o.Rows < 1 || o.Rows > 1<<16:
		return fmt.Errorf("%w: %d rows: valid are 1 to %d", ErrOptions, o.Rows, 1<<16)
	case o.Context < 0:
		return fmt.Errorf("%w: a context of %d positions", ErrOptions, o.Context)
	case !(o.Skew >= 0 && o.Skew <= 4):
		return fmt.Errorf("%w: skew %g: valid are 0 to 4", ErrOptions, o.Skew)
	case o.Trials < 1 || o.Trials > 1<<16:
		return fmt.Errorf("%w: %d trials: valid are 1 to %d", ErrOptions, o.Trials, 1<<16)
	case !(o.Reach > 0 && o.Reach <= 1):
		return fmt.Errorf("%w: reach %g: valid is above 0 up to 1", ErrOptions, o.Reach)
	}
	return nil
}

// Worker is one worker of a forecast.
type Worker struct {
	ID       string  `json:"id"`
	Host     string  `json:"host"`
	Memory   int64   `json:"memory_bytes"`
	Experts  int64   `json:"expert_bytes"`
	Parts    int     `json:"expert_parts"`
	Resident float64 `json:"resident_share"` // of its experts
}

// Step is what one step costs, in seconds; the sum of the terms is the whole. Of a layer's workers the slowest one's terms count.
type Step struct {
	Dense       float64 `json:"dense_s"`     // the coordinator's weights, or its multiply-adds
	Attention   float64 `json:"attention_s"` // the KV cache
	Coordinator float64 `json:"coordinator_s"`
	Network     float64 `json:"network_s"`
	Memory      float64 `json:"memory_s"`  // experts, where reading them takes longer than computing
	Compute     float64 `json:"compute_s"` // experts, where computing takes longer
	Disk        float64 `json:"disk_s"`
}

// Seconds is the sum.
func (s Step) Seconds() float64 {
	return s.Dense + s.Attention + s.Coordinator + s.Network + s.Memory + s.Compute + s.Disk
}

func (s *Step) add(o Step) {
	s.Dense += o.Dense
	s.Attention += o.Attention
	s.Coordinator += o.Coordinator
	s.Network += o.Network
	s.Memory += o.Memory
	s.Compute += o.Compute
	s.Disk += o.Disk
}

func (s Step) scaled(f float64) Step {
	return Step{s.Dense * f, s.Attention * f, s.Coordinator * f, s.Network * f, s.Memory * f, s.Compute * f, s.Disk * f}
}

// Forecast is a prediction.
type Forecast struct {
	Workers         []Worker        `json:"workers"`
	ExpertBytes     int64           `json:"expert_bytes"`
	DenseBytes      int64           `json:"dense_bytes"`
	CacheBytes      int64           `json:"kv_cache_bytes"` // of Rows sequences of Context positions
	Rows            int             `json:"rows"`
	Step            Step            `json:"step"`
	TokensPerSecond float64         `json:"tokens_per_s"`
	NetworkBytes    int64           `json:"network_bytes_per_token"` // to and from workers on other hosts
	ReadBytes       int64           `json:"read_bytes_per_token"`    // expert parts, of all workers
	Slowest         float64         `json:"slowest_share"`           // the slowest worker's bytes of a layer, relative to an even share; mean
	Notes           []string        `json:"notes,omitempty"`
	Plan            *placement.Plan `json:"-"`
}

// node is a worker with its host's figures.
type node struct {
	Worker
	host  *Host
	local bool
}

// Compute predicts a model on a cluster.
func Compute(m *Model, c *Cluster, o Options) (*Forecast, error) {
	if err := o.check(); err != nil {
		return nil, err
	}
	nodes := c.nodes()
	workers := make([]placement.Worker, len(nodes))
	for i, n := range nodes {
		workers[i] = placement.Worker{ID: n.ID, Host: n.Host, Node: i, Capacity: n.Memory, Bandwidth: n.host.ReadGBps * 1e9}
	}
	f := &Forecast{ExpertBytes: m.ExpertBytes(), DenseBytes: m.DenseBytes, Rows: o.Rows, CacheBytes: m.PositionBytes * int64(o.Rows) * int64(o.Context)}
	routing := newRouting(m, o)
	options := placement.Options{Counts: routing.counts(), Batches: []int{o.Rows}, Replicas: o.Replicas}
	plan, err := placement.Compute(1, m.Model, workers, options)
	if full := (*placement.CapacityError)(nil); errors.As(err, &full) {
		f.Notes = append(f.Notes, full.Error()+": the rest is read from disks")
		for i := range workers {
			workers[i].Capacity = 0
		}
		options.Replicas = 1
		plan, err = placement.Compute(1, m.Model, workers, options)
	}
	if err != nil {
		return nil, err
	}
	f.Plan = plan
	for i := range nodes {
		n := &nodes[i]
		n.Experts = plan.Bytes(m.Model, n.ID)
		for _, parts := range plan.Owned[n.ID] {
			n.Parts += len(parts)
		}
		n.Resident = 1
		if n.Experts > n.Memory {
			n.Resident = float64(n.Memory) / float64(n.Experts)
		}
		f.Workers = append(f.Workers, n.Worker)
	}
	f.run(m, c, o, nodes, routing)
	return f, nil
}

// nodes lists a cluster's workers.
func (c *Cluster) nodes() []node {
	var all []node
	for i := range c.Hosts {
		h := &c.Hosts[i]
		for k := range h.Count {
			name := h.Name
			if h.Count > 1 {
				name = fmt.Sprintf("%s-%d", h.Name, k+1)
			}
			for n := range h.Nodes {
				all = append(all, node{host: h, local: h.Name == c.Coordinator && k == 0, Worker: Worker{
					ID: fmt.Sprintf("%s-node%d", name, n), Host: name, Memory: int64(h.MemoryGiB * (1 << 30)),
				}})
			}
		}
	}
	return all
}

// run averages random steps.
func (f *Forecast) run(m *Model, c *Cluster, o Options, nodes []node, routing *routing) {
	var own *Host // the coordinator's
	for i := range c.Hosts {
		if c.Hosts[i].Name == c.Coordinator {
			own = &c.Hosts[i]
		}
	}
	read, ops := float64(own.Nodes)*own.ReadGBps*1e9*o.Reach, float64(own.Nodes)*own.ComputeGOPS*1e9*o.Reach
	rows := float64(o.Rows)
	fixed := Step{
		Dense:     max(float64(m.DenseBytes)/read, 2*rows*float64(m.DenseWeights)/ops),
		Attention: float64(f.CacheBytes) / read,
	}
	number := map[string]int{}
	for i, n := range nodes {
		number[n.ID] = i
	}
	t := newTrial(m, o, nodes)
	var sum Step
	var network, bytes, share float64
	for range o.Trials {
		for _, layer := range m.Layers {
			t.route(routing, layer, f.Plan.Owners[layer], number)
			step, sent := t.cost()
			sum.add(step)
			network += sent
			bytes += t.total()
			share += t.slowest() * float64(len(nodes)) / t.total()
		}
	}
	each := 1 / float64(o.Trials)
	fixed.add(sum.scaled(each))
	f.Step = fixed
	f.TokensPerSecond = rows / fixed.Seconds()
	f.NetworkBytes = int64(network * each / rows)
	f.ReadBytes = int64(bytes * each / rows)
	f.Slowest = share * each / float64(len(m.Layers))
}

// routing draws experts.
type routing struct {
	random  *rand.Rand
	experts int
	topK    int
	layers  map[int][]int32 // rank → expert
	below   []float64       // sum of the weights of ranks before this one
	chosen  []int32
}

func newRouting(m *Model, o Options) *routing {
	r := &routing{random: rand.New(rand.NewPCG(o.Seed, 1)), experts: m.Experts, topK: min(m.TopK, m.Experts), layers: map[int][]int32{}}
	sum := 0.0
	for rank := range m.Experts {
		r.below = append(r.below, sum)
		sum += math.Pow(float64(rank+1), -o.Skew)
	}
	r.below = append(r.below, sum)
	for _, layer := range m.Layers {
		order := make([]int32, m.Experts)
		for i, e := range r.random.Perm(m.Experts) {
			order[i] = int32(e)
		}
		r.layers[layer] = order
	}
	return r
}

// counts are the experts' expected shares, which the placement may know.
func (r *routing) counts() map[int][]float64 {
	if r.below[1] == r.below[r.experts]-r.below[r.experts-1] {
		return nil // all alike
	}
	counts := map[int][]float64{}
	for layer, order := range r.layers {
		shares := make([]float64, r.experts)
		for rank, expert := range order {
			shares[expert] = 1000 * (r.below[rank+1] - r.below[rank])
		}
		counts[layer] = shares
	}
	return counts
}
