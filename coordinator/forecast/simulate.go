package forecast

import (
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"time"

	"github.com/moepool/moepool/coordinator/dispatch"
	"github.com/moepool/moepool/coordinator/engine"
	"github.com/moepool/moepool/coordinator/router"
	"github.com/moepool/moepool/kernels"
)

// Noise is how much workers' times vary.
type Noise struct {
	Deviation  float64 // of the logarithm of a time: lognormal; 0.1 is about ±10 %
	Stragglers float64 // the share of answers that take StragglerFactor times as long
}

// StragglerFactor is how much longer a straggler's answer takes.
const StragglerFactor = 10

// Simulated is what a cluster of some workers costs in simulated steps.
type Simulated struct {
	Workers         int     `json:"workers"`
	Asked           float64 `json:"asked_per_layer"` // workers, mean
	LayerMean       float64 `json:"layer_mean_ms"`
	LayerP50        float64 `json:"layer_p50_ms"`
	LayerP99        float64 `json:"layer_p99_ms"`
	OwnPerLayer     float64 `json:"own_us_per_layer"`  // the coordinator's decisions and sums, really spent here
	OwnPerWorker    float64 `json:"own_us_per_worker"` // the same for each worker that is asked
	HedgesPerStep   float64 `json:"hedges_per_step"`
	TokensPerSecond float64 `json:"tokens_per_s"`
}

// simulatedSteps are averaged.
const simulatedSteps = 32

// Simulate runs the dispatcher's own decisions on virtual workers, for a cluster like c whose hosts of the last kind are made as many as it
// takes to have a number of workers.
func Simulate(m *Model, c *Cluster, o Options, noise Noise, workers int) (*Simulated, error) {
	if !(noise.Deviation >= 0 && noise.Deviation <= 2) || !(noise.Stragglers >= 0 && noise.Stragglers <= 1) {
		return nil, fmt.Errorf("%w: deviation %g and stragglers %g; valid are 0 to 2 and 0 to 1", ErrOptions, noise.Deviation, noise.Stragglers)
	}
	if err := o.check(); err != nil {
		return nil, err
	}
	grown, err := c.grown(workers)
	if err != nil {
		return nil, err
	}
	f, err := Compute(m, grown, o)
	if err != nil {
		return nil, err
	}
	s, err := dispatch.NewSimulator(f.Plan, m.Parts)
	if err != nil {
		return nil, err
	}
	random := rand.New(rand.NewPCG(o.Seed, 2))
	hosts := map[string]*node{}
	nodes := grown.nodes()
	for i := range nodes {
		nodes[i].Resident = f.Workers[i].Resident
		hosts[nodes[i].ID] = &nodes[i]
	}
	s.Message = time.Duration(o.PerWorkerUS / 2 * float64(time.Microsecond))
	s.Delay = func(worker string, rows, items int, parts []uint32) time.Duration {
		var bytes float64
		for _, item := range parts {
			bytes += float64(m.PartBytes[int(item)%m.Parts])
		}
		step, _ := hosts[worker].answer(m, rows, bytes, float64(items)*float64(m.PartWeights[0]), o.Reach)
		seconds := step.Seconds()
		seconds *= math.Exp(noise.Deviation * random.NormFloat64())
		if random.Float64() < noise.Stragglers {
			seconds *= StragglerFactor
		}
		return time.Duration(seconds * float64(time.Second))
	}
	return m.simulate(s, o, f, len(nodes))
}

// simulate runs the steps; the first one only teaches the dispatcher its workers' paces.
func (m *Model) simulate(s *dispatch.Simulator, o Options, f *Forecast, workers int) (*Simulated, error) {
	routing := newRouting(m, o)
	call := &engine.ExpertCall{
		Rows:    &kernels.Activations{Rows: o.Rows, Columns: m.Hidden, Values: make([]float32, o.Rows*m.Hidden)},
		Choices: make([]router.Choice, o.Rows), Sum: make([]int64, o.Rows*m.Hidden), RowErr: make([]error, o.Rows),
	}
	for i := range call.Choices {
		call.Choices[i].Weights = make([]float32, routing.topK)
	}
	r := &Simulated{Workers: workers}
	var layers []time.Duration
	var own time.Duration
	asked, hedges := 0, 0
	for step := range 1 + simulatedSteps {
		for _, layer := range m.Layers {
			call.Layer = layer
			for i := range call.Choices {
				call.Choices[i].Experts = append(call.Choices[i].Experts[:0], routing.draw(layer)...)
			}
			c, err := s.Compute(call)
			if err != nil {
				return nil, err
			}
			if step == 0 {
				continue
			}
			layers = append(layers, c.Took)
			own += c.Own
			asked += c.Asked
			hedges += c.Hedges
		}
	}
	var sum time.Duration
	for _, d := range layers {
		sum += d
	}
	slices.Sort(layers)
	n := float64(len(layers))
	r.Asked, r.HedgesPerStep = float64(asked)/n, float64(hedges)/simulatedSteps
	r.LayerMean = 1e3 * sum.Seconds() / n
	r.LayerP50, r.LayerP99 = 1e3*layers[len(layers)/2].Seconds(), 1e3*layers[len(layers)*99/100].Seconds()
	r.OwnPerLayer, r.OwnPerWorker = 1e6*own.Seconds()/n, 1e6*own.Seconds()/float64(asked)
	step := f.Step.Dense + f.Step.Attention + (sum+own).Seconds()/simulatedSteps
	r.TokensPerSecond = float64(o.Rows) / step
	return r, nil
}

// grown is a cluster with as many hosts of the last kind as it takes to have some workers.
func (c *Cluster) grown(workers int) (*Cluster, error) {
	g := &Cluster{Coordinator: c.Coordinator, Hosts: slices.Clone(c.Hosts)}
	last := &g.Hosts[len(g.Hosts)-1]
	others := 0
	for _, h := range g.Hosts[:len(g.Hosts)-1] {
		others += h.Count * h.Nodes
	}
	last.Count = (workers - others + last.Nodes - 1) / last.Nodes
	if last.Count < 1 {
		return nil, fmt.Errorf("%w: %d workers, but there are %d without the last kind of host", ErrOptions, workers, others)
	}
	return g, g.check()
}
