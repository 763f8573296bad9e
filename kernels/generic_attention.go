package kernels

// blockKeys is the number of keys for which AttendBlock allocates nothing.
const blockKeys = 256

func attendBlockGeneric(out, q, keys, values []float32, n int, scale float32) (highest, sum float32) {
	var buffer [blockKeys]float32
	p := buffer[:min(n, blockKeys)]
	if n > blockKeys {
		p = make([]float32, n)
	}
	scoresGeneric(p, q, keys, scale)
	highest = largest(p)
	expMinusGeneric(p, highest)
	weightedSumGeneric(out, p, values)
	return highest, ascendingSum(p)
}

// scoresGeneric stores scale·(q·key) for each key.
func scoresGeneric(dst, q, keys []float32, scale float32) {
	for i := range dst {
		dst[i] = dotLanes(q, keys[i*len(q):(i+1)*len(q)]) * scale
	}
}

// weightedSumGeneric stores Σ p·v over the rows of values, ascending, one FMA each, from 0.
func weightedSumGeneric(out, p, values []float32) {
	clear(out)
	for i, weight := range p {
		for d, v := range values[i*len(out) : (i+1)*len(out)] {
			out[d] = FMA(weight, v, out[d])
		}
	}
}
