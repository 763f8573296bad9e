//go:build !purego

package kernels

// callElements is the most elements that one assembly call of an elementwise function handles: at most about 30 µs.
const callElements = 16384

// Each ...Vectors function does whole vectors in assembly and leaves the rest to the reference.

func quantizeVectors(codes []int8, scales, x []float32) bool {
	const step = callElements / GroupColumns
	whole := len(x) / GroupColumns
	for g := 0; g < whole; g += step {
		if !quantizeCall(codes[g*GroupColumns:], scales[g:], x[g*GroupColumns:], min(step, whole-g)) {
			return false
		}
	}
	return quantizeGeneric(codes[whole*GroupColumns:], scales[whole:], x[whole*GroupColumns:])
}

//go:noinline
func quantizeCall(codes []int8, scales, x []float32, groups int) bool {
	return quantizeAVX2(&codes[0], &scales[0], &x[0], groups)
}

func quantizeWeightsVectors(codes []byte, scales []uint16, weights []float32) {
	const step = callElements / GroupColumns
	whole := len(weights) / GroupColumns
	for g := 0; g < whole; g += step {
		quantizeWeightsCall(codes[g*GroupColumns:], scales[g:], weights[g*GroupColumns:], min(step, whole-g))
	}
	quantizeWeightsGeneric(codes[whole*GroupColumns:], scales[whole:], weights[whole*GroupColumns:])
}

//go:noinline
func quantizeWeightsCall(codes []byte, scales []uint16, weights []float32, groups int) {
	quantizeWeightsAVX2(&codes[0], &scales[0], &weights[0], groups)
}

func finiteVectors(x []float32) bool {
	for len(x) >= 8 {
		n := min(len(x)&^7, callElements)
		if largestBitsCall(x[:n]) >= 0x7f800000 {
			return false
		}
		x = x[n:]
	}
	return finiteGeneric(x)
}

//go:noinline
func largestBitsCall(x []float32) uint32 { return largestBitsAVX2(&x[0], len(x)) }

func siluMultiplyVectors(dst, gate, up []float32) {
	for len(dst) >= 8 {
		n := min(len(dst)&^7, callElements)
		siluMultiplyCall(dst[:n], gate, up)
		dst, gate, up = dst[n:], gate[n:], up[n:]
	}
	siluMultiplyGeneric(dst, gate, up)
}

//go:noinline
func siluMultiplyCall(dst, gate, up []float32) {
	siluMultiplyAVX2(&dst[0], &gate[0], &up[0], len(dst))
}

func expMinusVectors(x []float32, shift float32) {
	for len(x) >= 8 {
		n := min(len(x)&^7, callElements)
		expMinusCall(x[:n], shift)
		x = x[n:]
	}
	expMinusGeneric(x, shift)
}

//go:noinline
func expMinusCall(x []float32, shift float32) { expMinusAVX2(&x[0], len(x), shift) }

func rmsNormVectors(dst, x, weight []float32, epsilon float32) {
	var sums laneSums
	rest := x
	for len(rest) >= lanes {
		n := min(len(rest)&^(lanes-1), callElements)
		squareLanesCall(&sums, rest[:n])
		rest = rest[n:]
	}
	sums.addTail(rest, rest)
	factor := rmsFactor(sums.total(), len(x), epsilon)
	for len(dst) >= 8 {
		n := min(len(dst)&^7, callElements)
		normalizeCall(dst[:n], x, weight, factor)
		dst, x, weight = dst[n:], x[n:], weight[n:]
	}
	normalizeGeneric(dst, x, weight, factor)
}

//go:noinline
func squareLanesCall(sums *laneSums, x []float32) {
	squareLanesAVX2((*[lanes]float32)(sums), &x[0], len(x))
}

//go:noinline
func normalizeCall(dst, x, weight []float32, factor float32) {
	normalizeAVX2(&dst[0], &x[0], &weight[0], len(dst), factor)
}

func rotateVectors(head, cos, sin []float32) {
	first, second := head[:len(cos)], head[len(cos):]
	for len(cos) >= 8 {
		n := min(len(cos)&^7, callElements)
		rotateCall(first, second, cos[:n], sin)
		first, second, cos, sin = first[n:], second[n:], cos[n:], sin[n:]
	}
	rotatePairs(first, second, cos, sin)
}

//go:noinline
func rotateCall(first, second, cos, sin []float32) {
	rotateAVX2(&first[0], &second[0], &cos[0], &sin[0], len(cos))
}

func mergeVectors(x []float32, a float32, y []float32, b float32) {
	for len(x) >= 8 {
		n := min(len(x)&^7, callElements)
		mergeCall(x[:n], a, y, b)
		x, y = x[n:], y[n:]
	}
	mergeGeneric(x, a, y, b)
}

//go:noinline
func mergeCall(x []float32, a float32, y []float32, b float32) { mergeAVX2(&x[0], &y[0], len(x), a, b) }

func divideVectors(x []float32, divisor float32) {
	for len(x) >= 8 {
		n := min(len(x)&^7, callElements)
		divideCall(x[:n], divisor)
		x = x[n:]
	}
	divideGeneric(x, divisor)
}

//go:noinline
func divideCall(x []float32, divisor float32) { divideAVX2(&x[0], len(x), divisor) }

func addVectors(x, y []float32) {
	for len(x) >= 8 {
		n := min(len(x)&^7, callElements)
		addCall(x[:n], y)
		x, y = x[n:], y[n:]
	}
	addGeneric(x, y)
}

//go:noinline
func addCall(x, y []float32) { addAVX2(&x[0], &y[0], len(x)) }

func addScaledVectors(x, y []float32, factor float32) {
	for len(x) >= 8 {
		n := min(len(x)&^7, callElements)
		addScaledCall(x[:n], y, factor)
		x, y = x[n:], y[n:]
	}
	addScaledGeneric(x, y, factor)
}

//go:noinline
func addScaledCall(x, y []float32, factor float32) { addScaledAVX2(&x[0], &y[0], len(x), factor) }

func accumulateVectors(sum []int64, y []float32, weight float32) bool {
	w := float64(weight) * fixedOne
	for len(sum) >= 4 {
		n := min(len(sum)&^3, callElements)
		done := accumulateCall(sum[:n], y, w)
		if done < n { // one of the next four is large or not a number
			if !accumulateGeneric(sum[done:done+4], y[done:done+4], weight) {
				return false
			}
			done += 4
		}
		sum, y = sum[done:], y[done:]
	}
	return accumulateGeneric(sum, y, weight)
}

//go:noinline
func accumulateCall(sum []int64, y []float32, weight float64) int {
	return accumulateAVX2(&sum[0], &y[0], len(sum), weight)
}
