package kernels

import "math"

// Functions in float64 for tables that are built once. Package math's own differ between CPUs; these use only operations that
// are exact everywhere (math.FMA is). Errors are a few units of the last place.

const (
	ln2HighDouble = 6.93147180369123816490e-01 // the parts of fdlibm: n·ln2HighDouble is exact for small n
	ln2LowDouble  = 1.90821492927058770002e-10

	halfPiHigh = 1.57079632679489661923     // π/2 rounded to float64
	halfPiLow  = 6.12323399573676588613e-17 // and what is missing
	twoOverPi  = 6.36619772367581343075535e-01
)

// expDouble is e^x for |x| < 700, by its Taylor series after reduction to |r| ≤ ln2/2.
func expDouble(x float64) float64 {
	n := math.RoundToEven(x * log2e)
	r := math.FMA(-n, ln2LowDouble, math.FMA(-n, ln2HighDouble, x))
	p := 1.0
	for k := 15; k >= 1; k-- {
		p = math.FMA(p, r/float64(k), 1)
	}
	return p * math.Float64frombits(uint64(1023+int64(n))<<52)
}

// logDouble is ln x for normal positive x: x = m·2^e with m in [√½, √2], ln m = 2·atanh((m-1)/(m+1)).
func logDouble(x float64) float64 {
	bits := math.Float64bits(x)
	e := int64(bits>>52) - 1023
	m := math.Float64frombits(bits&(1<<52-1) | 1023<<52)
	if m > math.Sqrt2 {
		m, e = m/2, e+1
	}
	s := (m - 1) / (m + 1)
	square := float64(s * s)
	sum := 0.0
	for k := 27; k >= 1; k -= 2 {
		sum = math.FMA(sum, square, 1/float64(k))
	}
	return math.FMA(float64(e), ln2HighDouble, math.FMA(float64(e), ln2LowDouble, 2*float64(s*sum)))
}

// sinCosDouble gives sine and cosine for |x| < 2^30: x = n·π/2 + r with |r| ≤ π/4, then Taylor series.
func sinCosDouble(x float64) (sin, cos float64) {
	n := math.RoundToEven(x * twoOverPi)
	r := math.FMA(-n, halfPiLow, math.FMA(-n, halfPiHigh, x))
	square := float64(r * r)
	s, c := 1.0, 1.0
	for k := 20; k >= 2; k -= 2 { // 1 - r²/(k(k+1))·(…) and 1 - r²/((k-1)k)·(…)
		s = math.FMA(s, -square/float64(k*(k+1)), 1)
		c = math.FMA(c, -square/float64((k-1)*k), 1)
	}
	s = float64(s * r)
	switch int64(n) & 3 {
	case 0:
		return s, c
	case 1:
		return c, -s
	case 2:
		return -s, -c
	default:
		return -c, s
	}
}
