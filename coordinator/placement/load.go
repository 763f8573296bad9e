package placement

// RowCost is what a further row of an expert part costs, relative to the first one, for which the part is read from memory. A layer of 128 experts in
// q8 took 0.19 ms an expert with one row, 0.24 with 4 and 0.44 with 32 (docs/benchmarks.md): 0.04 to 0.09.
const RowCost = 1.0 / 16

// one is the fixed point of loads: a load of 1 is what one row of an expert part of average size costs.
const one = 1 << 32

// load is an expected time in fixed point: sums are exact, whatever their order, and what was added can be taken off again.
type load int64

// routing is how often the experts of a layer are chosen.
type routing struct {
	known       bool
	probability []float64 // expert → that a row chooses it
}

// newRouting estimates probabilities from counts (nil: unknown, all alike). Each expert counts as chosen once more than it was, so that few observations
// don't make an expert impossible.
func newRouting(counts []float64, experts, topK int) routing {
	r := routing{known: counts != nil, probability: make([]float64, experts)}
	total := float64(experts)
	for _, n := range counts {
		total += n
	}
	for e := range r.probability {
		n := 1.0
		if counts != nil {
			n += counts[e]
		}
		r.probability[e] = min(1, float64(float64(topK)*n)/total)
	}
	return r
}

// expertLoad is the load of an expert part of average size that each row of a batch needs here with probability q: a first row costs 1 and each further
// one RowCost.
func expertLoad(q float64, batch int) load {
	some := 1 - power(1-q, batch) // that there is a first row
	rows := float64(q * float64(batch))
	return load(float64((float64((1-RowCost)*some) + float64(RowCost*rows)) * one))
}

// times is the load of a part that has ratio times the average size.
func (l load) times(ratio float64) load { return load(float64(float64(l) * ratio)) }

// power is x^n.
func power(x float64, n int) float64 {
	result := 1.0
	for ; n > 0; n >>= 1 {
		if n&1 != 0 {
			result = float64(result * x)
		}
		x = float64(x * x)
	}
	return result
}
