package kernels

import "math"

// FMA is x·y+z in float32 with one rounding, the same on every target.
//
// Go has no float32 FMA, and rounding a float64 result twice is sometimes wrong. The product is exact in float64, the sum is
// rounded once; rounding it again to float32 goes wrong only where it is doubtful, which takes the slow path.
func FMA(x, y, z float32) float32 {
	s := float64(x)*float64(y) + float64(z)
	if doubtful(s) {
		return fmaByOdd(x, y, z)
	}
	return float32(s)
}

// doubtful says whether rounding a rounded float64 sum to float32 may be wrong: it lies exactly between two float32 values,
// though the exact sum need not, or it is below the normal float32 range, where other bits tell.
func doubtful(s float64) bool {
	b := math.Float64bits(s)
	return b&(1<<29-1) == 1<<28 || b&(1<<63-1) < (1023-126)<<52
}

// fmaByOdd rounds the float64 sum to odd before rounding it to float32, which makes the second rounding right (Boldo and
// Melquiond, "Emulation of a FMA and correctly rounded sums: proved algorithms using rounding to odd", 2008).
func fmaByOdd(x, y, z float32) float32 {
	p, a := float64(x)*float64(y), float64(z)
	s := p + a
	// Knuth's two-sum: s + e is the exact sum. Infinities and NaNs make e a NaN, which changes nothing below.
	t := s - p
	e := (p - (s - t)) + (a - t)
	if b := math.Float64bits(s); b&1 == 0 && (e < 0 || e > 0) {
		if (e > 0) == (s > 0) {
			b++
		} else {
			b--
		}
		s = math.Float64frombits(b)
	}
	return float32(s)
}
