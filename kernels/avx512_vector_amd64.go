//go:build !purego

package kernels

func siluMultiply512(dst, gate, up []float32) {
	for len(dst) > 0 {
		n := min(len(dst), callElements)
		siluMultiplyCall512(dst[:n], gate, up)
		dst, gate, up = dst[n:], gate[n:], up[n:]
	}
}

//go:noinline
func siluMultiplyCall512(dst, gate, up []float32) {
	siluMultiplyAVX512(&dst[0], &gate[0], &up[0], len(dst))
}

func expMinus512(x []float32, shift float32) {
	for len(x) > 0 {
		n := min(len(x), callElements)
		expMinusCall512(x[:n], shift)
		x = x[n:]
	}
}

//go:noinline
func expMinusCall512(x []float32, shift float32) { expMinusAVX512(&x[0], len(x), shift) }

func accumulate512(sum []int64, y []float32, weight float32) bool {
	w := float64(weight) * fixedOne
	for len(sum) >= 8 {
		n := min(len(sum)&^7, callElements)
		done := accumulateCall512(sum[:n], y, w)
		if done < n { // one of the next eight is large or not a number
			if !accumulateGeneric(sum[done:done+8], y[done:done+8], weight) {
				return false
			}
			done += 8
		}
		sum, y = sum[done:], y[done:]
	}
	return accumulateGeneric(sum, y, weight)
}

//go:noinline
func accumulateCall512(sum []int64, y []float32, weight float64) int {
	return accumulateAVX512(&sum[0], &y[0], len(sum), weight)
}

func fromFixed512(dst []float32, sum []int64) {
	for len(dst) >= 8 {
		n := min(len(dst)&^7, callElements)
		fromFixedCall512(dst[:n], sum)
		dst, sum = dst[n:], sum[n:]
	}
	fromFixedGeneric(dst, sum)
}

//go:noinline
func fromFixedCall512(dst []float32, sum []int64) { fromFixedAVX512(&dst[0], &sum[0], len(dst)) }
