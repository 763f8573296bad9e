package kernels

import "math"

// smallestNormal is the smallest float32 that is not denormal.
const smallestNormal = 0x1p-126

// quantizeGeneric gives each group of GroupColumns columns the scale maxabs/127 and codes round-half-even(x/scale). A group
// of zeros, or whose scale is denormal, is zeros with scale 0.
func quantizeGeneric(codes []int8, scales, x []float32) bool {
	clear(codes[len(x):])
	for g := range scales {
		from := g * GroupColumns
		to := min(from+GroupColumns, len(x))
		if !quantizeGroup(codes[from:to], &scales[g], x[from:to]) {
			return false
		}
	}
	return true
}

func quantizeGroup(codes []int8, scale *float32, x []float32) bool {
	var largest uint32 // bits of an absolute value: ordered as the values, with NaNs on top
	for _, v := range x {
		largest = max(largest, math.Float32bits(v)&0x7fffffff)
	}
	if largest >= 0x7f800000 {
		return false
	}
	*scale = math.Float32frombits(largest) / 127
	if *scale < smallestNormal {
		*scale = 0
		clear(codes)
		return true
	}
	for i, v := range x {
		codes[i] = int8(int32(roundEven(v / *scale)))
	}
	return true
}

func finiteGeneric(x []float32) bool { return firstNotFinite(x) < 0 }
