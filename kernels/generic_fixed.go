package kernels

import "math"

const (
	fixedOne   = 1 << 28 // 1.0 in fixed point
	fixedLimit = 1 << 52
)

func accumulateGeneric(sum []int64, y []float32, weight float32) bool {
	w := float64(weight) * fixedOne
	for i, v := range y {
		contribution := math.RoundToEven(w * float64(v)) // the product is exact
		if !(math.Abs(contribution) < fixedLimit) {
			return false
		}
		sum[i] += int64(contribution)
	}
	return true
}

func fromFixedGeneric(dst []float32, sum []int64) {
	for i, v := range sum {
		dst[i] = float32(v) * (1.0 / fixedOne) // a power of two: exact
	}
}
