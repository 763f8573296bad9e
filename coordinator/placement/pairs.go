package placement

import (
	"math"
	"math/bits"
)

// shared is what pairs of experts that the same rows choose mean for workers. Who owns experts that are often chosen together has, in a step of few rows, much to do
// at once or little; so the load of a worker isn't only its mean: of several workers the slowest one takes about as long as the mean and some standard deviations.
type shared struct {
	experts    int
	covariance []float64   // expert·experts+expert → covariance of being chosen by one row
	scale      []float64   // batch → standard deviations that count, in load per expert and row
	near       [][]float64 // worker → expert → sum over what the worker owns of amount · covariance with the expert
	variance   []float64   // worker → of the number of its experts that a row chooses
}

// chances is how many standard deviations of an observed covariance are put down to chance.
const chances = 2.0

// expectedMost is about how many standard deviations the largest of n normal variables is above their mean.
func expectedMost(n int) float64 { return 0.56 + 0.4*float64(bits.Len(uint(n-1))-1) }

func newShared(l *layer, counts, pairs []float64) *shared {
	m := &l.p.model
	s := &shared{experts: m.Experts, covariance: make([]float64, len(pairs)), scale: make([]float64, len(l.p.batches)), variance: make([]float64, len(l.p.workers))}
	total := 0.0
	for _, n := range counts {
		total += n
	}
	rows := total / float64(m.TopK)
	for a, p := range l.probability {
		for b, q := range l.probability {
			c := float64(p * (1 - p))
			if a != b {
				c = 0
				if rows > 0 {
					c = pairs[a*m.Experts+b]/rows - float64(p*q)
					// What chance makes of independent experts in so many rows is not believed.
					chance := float64(chances * math.Sqrt(float64(p*(1-p))*float64(q*(1-q))/rows))
					c = max(0, c-chance) + min(0, c+chance)
				}
			}
			s.covariance[a*m.Experts+b] = c
		}
	}
	// A further row costs the whole of a part if it is the first of its expert, else RowCost.
	for b, batch := range l.p.batches {
		cost, weight := 0.0, 0.0
		for _, q := range l.probability {
			cost += float64(q * (RowCost + float64((1-RowCost)*power(1-q, batch-1))))
			weight += q
		}
		s.scale[b] = float64(expectedMost(len(l.p.workers)) * float64(cost/weight) * float64(one*m.Parts) * math.Sqrt(float64(batch)))
	}
	s.near = make([][]float64, len(l.p.workers))
	for w := range s.near {
		s.near[w] = make([]float64, m.Experts)
	}
	return s
}

// change gives a worker an amount more of an expert and returns its variance then.
func (s *shared) change(worker, e int, amount float64) float64 {
	near, covariance := s.near[worker], s.covariance[e*s.experts:(e+1)*s.experts]
	s.variance[worker] += s.growth(worker, e, amount)
	for i, c := range covariance {
		near[i] += float64(amount * c)
	}
	return s.variance[worker]
}

// growth is by how much the variance of a worker grows with an amount more of an expert.
func (s *shared) growth(worker, e int, amount float64) float64 {
	return float64(amount * (2*s.near[worker][e] + float64(amount*s.covariance[e*s.experts+e])))
}
