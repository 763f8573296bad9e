package kernels

import "math"

// toBF16 rounds to bfloat16, nearest even; a NaN stays one (made quiet).
func toBF16(x float32) uint16 {
	b := math.Float32bits(x)
	if b&0x7fffffff > 0x7f800000 {
		return uint16(b>>16) | 0x40
	}
	return uint16((b + 0x7fff + b>>16&1) >> 16)
}

// fromBF16 is its exact inverse.
func fromBF16(x uint16) float32 { return math.Float32frombits(uint32(x) << 16) }
