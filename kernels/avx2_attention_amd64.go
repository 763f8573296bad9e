//go:build !purego

package kernels

func attendBlockVectors(out, q, keys, values []float32, n int, scale float32) (highest, sum float32) {
	var buffer [blockKeys]float32
	p := buffer[:min(n, blockKeys)]
	if n > blockKeys {
		p = make([]float32, n)
	}
	scoresVectors(p, q, keys, scale)
	highest = largest(p)
	expMinusVectors(p, highest)
	weightedSumVectors(out, p, values)
	return highest, ascendingSum(p)
}

func scoresVectors(dst, q, keys []float32, scale float32) {
	if len(q) == 0 || len(q) > callElements {
		scoresGeneric(dst, q, keys, scale)
		return
	}
	step := max(1, callElements/len(q))
	for len(dst) > 0 {
		n := min(len(dst), step)
		scoresCall(dst[:n], q, keys, scale)
		dst, keys = dst[n:], keys[n*len(q):]
	}
}

//go:noinline
func scoresCall(dst, q, keys []float32, scale float32) {
	scoresAVX2(&dst[0], &q[0], &keys[0], len(dst), len(q), scale)
}

func weightedSumVectors(out, p, values []float32) {
	clear(out)
	dims := len(out)
	whole := dims &^ 7
	if whole == 0 || dims > callElements {
		weightedSumGeneric(out, p, values)
		return
	}
	step := max(1, callElements/dims)
	for from := 0; from < len(p); from += step {
		weightedSumCall(out[:whole], p[from:min(from+step, len(p))], values[from*dims:], dims)
	}
	for i, weight := range p {
		for d := whole; d < dims; d++ {
			out[d] = FMA(weight, values[i*dims+d], out[d])
		}
	}
}

//go:noinline
func weightedSumCall(out, p, values []float32, stride int) {
	weightedSumAVX2(&out[0], &p[0], &values[0], len(p), len(out), 4*stride)
}
