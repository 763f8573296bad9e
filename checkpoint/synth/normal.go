package synth

import (
	"math"
	"sync"
)

// quantiles holds the standard normal distribution as 65536 equally likely values: entry i is the value below which a share of
// (i+½)/65536 lies, so 16 random bits are a weight. It is computed with additions, multiplications and divisions that are
// rounded one by one (the conversions to float64 forbid a fused multiply-add), so it has the same bits on every machine.
var quantiles = sync.OnceValue(func() *[1 << 16]float64 {
	table := new([1 << 16]float64)
	z := 0.0
	for i := 1 << 15; i < 1<<16; i++ {
		p := (float64(i) + 0.5) / (1 << 16)
		for range 4 { // Newton from the neighbour's value
			below, density := normal(z)
			z -= (below - p) / density
		}
		table[i] = z
		table[1<<16-1-i] = -z
	}
	return table
})

// normal gives the standard normal distribution function and density at z in [0, 6], by the series
// Φ(z) = ½ + φ(z)·(z + z³/3 + z⁵/(3·5) + …) (G. Marsaglia, Evaluating the Normal Distribution, 2004).
func normal(z float64) (below, density float64) {
	square := float64(z * z)
	const root = 2.5066282746310002 // √(2π)
	density = expNegative(square/2) / root
	term, sum := z, z
	for n := 3.0; term > sum*1e-17; n += 2 {
		term = float64(term*square) / n
		sum += term
	}
	return 0.5 + float64(density*sum), density
}

// expNegative gives e^-x for x in [0, 18]: a Taylor series at x/64, squared six times.
func expNegative(x float64) float64 {
	y := x / 64
	term, sum := 1.0, 1.0
	for n := 1.0; n <= 20; n++ {
		term = float64(term*y) / n
		sum += term
	}
	for range 6 {
		sum = float64(sum * sum)
	}
	return 1 / sum
}

// toBF16 rounds to the nearest bfloat16, ties to even.
func toBF16(x float32) uint16 {
	bits := math.Float32bits(x)
	return uint16((bits + 0x7fff + bits>>16&1) >> 16)
}

// toF16 rounds to the nearest half-precision number, ties to even; |x| must be below 65504.
func toF16(x float32) uint16 {
	sign := uint16(math.Float32bits(x) >> 16 & 0x8000)
	magnitude := math.Float32bits(x) & 0x7fffffff
	if magnitude < (127-14)<<23 { // zero or a denormal half: a multiple of 2^-24
		return sign | uint16(math.RoundToEven(float64(math.Float32frombits(magnitude))*0x1p24))
	}
	return sign | uint16((magnitude-(127-15)<<23+0xfff+magnitude>>13&1)>>13)
}
