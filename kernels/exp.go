package kernels

import "math"

// The range outside which Exp is constant: above expHighest e^x is not below 2^128, below expLowest it is below 2^-126.
const (
	expHighest = 88.72283
	expLowest  = -87.33654

	log2e   = 1.44269504088896341
	ln2High = 0.693359375 // 10 bits: n·ln2High is exact
	ln2Low  = -2.12194440054690583e-4
)

// expCoefficients are those of e^r = 1 + r + r²·(…) on [-ln2/2, ln2/2] from Cephes' expf, highest power first.
var expCoefficients = [...]float32{1.9875691500e-4, 1.3981999507e-3, 8.3334519073e-3, 4.1665795894e-2, 1.6666665459e-1, 5.0000001201e-1, 1, 1}

// Exp is e^x by the polynomial that all kernels share: x = n·ln2 + r, e^x = 2^n·e^r, with FMA in each step. Its error is below
// 0.9 units of the last place (computed for all arguments). 0 where the result would be denormal (below 2^-126), +Inf above the
// largest float32, NaN for NaN.
func Exp(x float32) float32 {
	switch {
	case x != x:
		return x
	case x > expHighest:
		return float32(math.Inf(1))
	case x < expLowest:
		return 0
	}
	shifted := FMA(x, log2e, roundMagic) // its low bits are n
	n := shifted - roundMagic
	r := FMA(n, -ln2High, x)
	r = FMA(n, -ln2Low, r)
	p := expCoefficients[0]
	for _, c := range expCoefficients[1:] {
		p = FMA(p, r, c)
	}
	return math.Float32frombits(math.Float32bits(p) + math.Float32bits(shifted)<<23)
}

// Sigmoid is 1/(1+Exp(-x)).
func Sigmoid(x float32) float32 { return 1 / (1 + Exp(-x)) }

// silu is x/(1+Exp(-x)); -Inf gives -0, as the large negative values do.
func silu(x float32) float32 {
	if x < -math.MaxFloat32 {
		x = -math.MaxFloat32
	}
	return x / (1 + Exp(-x))
}
