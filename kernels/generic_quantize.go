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

// quantizeWeightsGeneric gives the bytes code+128 (padded with zero weights) and bfloat16 scales of one output's finite weights.
// The scale is rounded by at most 2^-9 of itself, so that no quotient exceeds 127.25 and no code 127.
func quantizeWeightsGeneric(codes []byte, scales []uint16, weights []float32) {
	for i := range codes[len(weights):] {
		codes[len(weights)+i] = codeOffset
	}
	for g := range scales {
		from := g * GroupColumns
		to := min(from+GroupColumns, len(weights))
		var largest float32
		for _, w := range weights[from:to] {
			largest = max(largest, float32(math.Abs(float64(w))))
		}
		scales[g] = toBF16(largest / 127)
		if scales[g] < 0x80 { // zero or denormal
			scales[g] = 0
		}
		scale := fromBF16(scales[g])
		for c := from; c < to; c++ {
			codes[c] = codeOffset
			if scale != 0 {
				codes[c] = byte(int32(roundEven(weights[c]/scale)) + codeOffset)
			}
		}
	}
}

// roundMagic is 1.5·2^23: adding and subtracting it rounds a float32 below 2^22 to an integer, ties to even.
const roundMagic = 3 << 22

// roundEven rounds to the nearest integer, ties to even; |x| < 2^22. It never gives -0.
func roundEven(x float32) float32 { return (x + roundMagic) - roundMagic }

func finiteGeneric(x []float32) bool { return firstNotFinite(x) < 0 }
