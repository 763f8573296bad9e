package kernels

import "math"

func siluMultiplyGeneric(dst, gate, up []float32) {
	for i, x := range gate {
		dst[i] = silu(x) * up[i]
	}
}

// lanes is the number of partial sums of a sum over a vector.
const lanes = 16

// laneSums are the partial sums of a sum over a vector (package contract).
type laneSums [lanes]float32

func (l *laneSums) add(x, y *[lanes]float32) {
	for j := range l {
		l[j] = FMA(x[j], y[j], l[j])
	}
}

// addTail adds less than 16 products, padded with zeros.
func (l *laneSums) addTail(x, y []float32) {
	if len(x) > 0 {
		var a, b [lanes]float32
		copy(a[:], x)
		copy(b[:], y)
		l.add(&a, &b)
	}
}

// total adds the lanes by halves.
func (l laneSums) total() float32 {
	for half := lanes / 2; half > 0; half /= 2 {
		for j := range half {
			l[j] += l[j+half]
		}
	}
	return l[0]
}

// dotLanes is Σ x·y in 16 lanes.
func dotLanes(x, y []float32) float32 {
	var sums laneSums
	for ; len(x) >= lanes; x, y = x[lanes:], y[lanes:] {
		sums.add((*[lanes]float32)(x), (*[lanes]float32)(y))
	}
	sums.addTail(x, y)
	return sums.total()
}

func rmsNormGeneric(dst, x, weight []float32, epsilon float32) {
	normalizeGeneric(dst, x, weight, rmsFactor(dotLanes(x, x), len(x), epsilon))
}

func normalizeGeneric(dst, x, weight []float32, factor float32) {
	for i, v := range x {
		dst[i] = float32(v*factor) * weight[i]
	}
}

// rmsFactor is 1/sqrt(squares/n + epsilon). The root of a float32 taken in float64 and rounded is correctly rounded.
func rmsFactor(squares float32, n int, epsilon float32) float32 {
	mean := squares / float32(n)
	return 1 / float32(math.Sqrt(float64(mean+epsilon)))
}

func rotateGeneric(head, cos, sin []float32) {
	rotatePairs(head[:len(cos)], head[len(cos):], cos, sin)
}

func rotatePairs(first, second, cos, sin []float32) {
	for i, c := range cos {
		a, b := first[i], second[i]
		first[i] = float32(a*c) - float32(b*sin[i])
		second[i] = float32(b*c) + float32(a*sin[i])
	}
}

func expMinusGeneric(x []float32, shift float32) {
	for i, v := range x {
		x[i] = Exp(v - shift)
	}
}

func mergeGeneric(x []float32, a float32, y []float32, b float32) {
	for i, v := range x {
		x[i] = FMA(y[i], b, float32(v*a))
	}
}

func divideGeneric(x []float32, divisor float32) {
	for i := range x {
		x[i] /= divisor
	}
}

func addGeneric(x, y []float32) {
	for i, v := range y {
		x[i] += v
	}
}

func addScaledGeneric(x, y []float32, factor float32) {
	for i, v := range y {
		x[i] += float32(v * factor)
	}
}

// largest is the first of the largest elements, NaNs ignored; -Inf if there is none.
func largest(x []float32) float32 {
	m := float32(math.Inf(-1))
	for _, v := range x {
		if v > m {
			m = v
		}
	}
	return m
}

func ascendingSum(x []float32) float32 {
	var sum float32
	for _, v := range x {
		sum += v
	}
	return sum
}
