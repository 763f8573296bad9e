package kernels

import (
	"math"
	"math/big"
	"math/rand/v2"
	"testing"
)

// The reference itself against slow, obvious versions.

// ulps is the distance of got from want in units of the last place of a float32 near want.
func ulps(got float32, want float64) float64 {
	_, exponent := math.Frexp(want)
	return math.Abs(float64(got)-want) / math.Ldexp(1, max(exponent, -125)-24)
}

func TestFMAIsExact(t *testing.T) {
	t.Parallel()
	for kind := range notFinite {
		in := newInputs(t, uint64(kind), kind)
		check := func(x, y, z float32) {
			exact := new(big.Float).SetPrec(2000).SetMode(big.ToNearestEven)
			exact.Mul(new(big.Float).SetPrec(2000).SetFloat64(float64(x)), new(big.Float).SetFloat64(float64(y)))
			exact.Add(exact, new(big.Float).SetPrec(2000).SetFloat64(float64(z)))
			want, _ := exact.Float32()
			if got := FMA(x, y, z); got != want {
				t.Fatalf("FMA(%v, %v, %v) = %v, want %v", x, y, z, got, want)
			}
		}
		for range 5000 {
			x, y, z := in.float(), in.float(), in.float()
			check(x, y, z)
			check(x, y, -x*y)                                                                     // cancels all but the last bits
			check(x, y, math.Nextafter32(x*y, 0)*0x1p-24)                                         // near ties
			check(1+float32(in.random.IntN(99))*0x1p-23, 1+0x1p-23, x*0x1p-30)                    // a tie, but for a small addend
			check(x, 0x1p-100*y, 0x1p-149*float32(in.random.IntN(999)))                           // denormal results
			check(math.Float32frombits(0x3f800001), math.Float32frombits(0x33800000), y*0x1p-140) // 2^-24·(1+2^-23)
		}
	}
	negativeZero := float32(math.Copysign(0, -1))
	for _, c := range []struct{ x, y, z, want float32 }{
		{0, 1, negativeZero, 0}, {negativeZero, 1, negativeZero, negativeZero}, {1, -1, 1, 0}, {-0x1p-100, 0x1p-100, 0, negativeZero},
		{0x1p100, 0x1p100, 0, float32(math.Inf(1))}, {0x1p127, 2, -0x1p127, 0x1p127}, {1, 1, float32(math.Inf(-1)), float32(math.Inf(-1))},
	} {
		if got := FMA(c.x, c.y, c.z); !sameFloat(got, c.want) {
			t.Errorf("FMA(%v, %v, %v) = %v, want %v", c.x, c.y, c.z, got, c.want)
		}
	}
	if got := FMA(float32(math.Inf(1)), 0, 1); got == got {
		t.Errorf("FMA(Inf, 0, 1) = %v, want NaN", got)
	}
}

func TestExpIsAccurate(t *testing.T) {
	t.Parallel()
	worst := 0.0
	for b := uint64(0); b < 1<<32; b += 6007 {
		x := math.Float32frombits(uint32(b))
		got, want := Exp(x), math.Exp(float64(x))
		switch {
		case x != x:
			if got == got {
				t.Fatalf("Exp(%v) = %v, want NaN", x, got)
			}
		case x < expLowest:
			if got != 0 || math.Signbit(float64(got)) {
				t.Fatalf("Exp(%v) = %v, want 0", x, got)
			}
		case x > expHighest:
			if !math.IsInf(float64(got), 1) {
				t.Fatalf("Exp(%v) = %v, want +Inf", x, got)
			}
		default:
			worst = max(worst, ulps(got, want))
		}
	}
	if worst > 1 {
		t.Errorf("error of Exp: %.3f units in the last place, want at most 1", worst)
	}
	t.Logf("error of Exp: at most %.3f units in the last place", worst)
	// The thresholds are where the doc says they are.
	if e := math.Exp(expLowest); e < 0x1p-126 {
		t.Errorf("e^expLowest = %v is denormal", e)
	}
	if e := math.Exp(float64(math.Nextafter32(expLowest, -100))); e >= 0x1p-126 {
		t.Errorf("e^x = %v is normal right below expLowest", e)
	}
	if e := float32(math.Exp(float64(math.Nextafter32(expHighest, 100)))); !math.IsInf(float64(e), 1) {
		t.Errorf("e^x = %v is finite right above expHighest", e)
	}
	for x, want := range map[float32]float32{0: 1, float32(math.Inf(1)): float32(math.Inf(1)), float32(math.Inf(-1)): 0} {
		if got := Exp(x); got != want {
			t.Errorf("Exp(%v) = %v, want %v", x, got, want)
		}
	}
}

func TestSiLUAndSigmoid(t *testing.T) {
	t.Parallel()
	for x := float32(-120); x < 120; x += 0.0173 {
		sigmoid := 1 / (1 + math.Exp(-float64(x)))
		if x < expLowest {
			sigmoid = 0
		}
		if e := ulps(Sigmoid(x), sigmoid); e > 2.5 {
			t.Fatalf("Sigmoid(%v) = %v: %.2f units off", x, Sigmoid(x), e)
		}
		if e := ulps(silu(x), float64(x)*sigmoid); x > -expHighest && e > 2.5 {
			t.Fatalf("silu(%v) = %v: %.2f units off", x, silu(x), e)
		}
	}
	negativeZero := float32(math.Copysign(0, -1))
	inf := float32(math.Inf(1))
	for x, want := range map[float32]float32{0: 0, -100: negativeZero, -math.MaxFloat32: negativeZero, -inf: negativeZero, inf: inf, math.MaxFloat32: math.MaxFloat32} {
		if got := silu(x); !sameFloat(got, want) {
			t.Errorf("silu(%v) = %v, want %v", x, got, want)
		}
	}
	if nan := float32(math.NaN()); silu(nan) == silu(nan) || Sigmoid(nan) == Sigmoid(nan) {
		t.Error("silu or Sigmoid of NaN is a number")
	}
}

func TestFloat64FunctionsAreAccurate(t *testing.T) {
	t.Parallel()
	random := rand.New(rand.NewPCG(1, 1))
	for i := range 200000 {
		angle := random.Float64() * math.Ldexp(1, i%31)
		wantSin, wantCos := math.Sincos(angle)
		if sin, cos := sinCosDouble(angle); math.Abs(sin-wantSin) > 1e-15 || math.Abs(cos-wantCos) > 1e-15 {
			t.Fatalf("sine and cosine of %v: %v and %v, want %v and %v", angle, sin, cos, wantSin, wantCos)
		}
		x := (random.Float64()*2 - 1) * 100
		if got, want := expDouble(x), math.Exp(x); math.Abs(got-want) > 4e-16*want {
			t.Fatalf("e^%v = %v, want %v", x, got, want)
		}
		y := math.Ldexp(1+random.Float64(), i%80-40)
		if got, want := logDouble(y), math.Log(y); math.Abs(got-want) > 1e-15*math.Abs(want) {
			t.Fatalf("ln %v = %v, want %v", y, got, want)
		}
	}
}

// From the GNU C library: large angles, where a poor reduction shows.
func TestSinCosOfLargeAngles(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ angle, sin, cos float64 }{
		{1e6, -0.34999350217129294, 0.9367521275331447},
		{999999, -0.9773520315382229, 0.21161995758460128},
		{355, -3.014435335948845e-05, -0.999999999545659},
		{710, 6.0288706691585265e-05, 0.999999998182636},
		{131072.5, -0.8566254267557514, 0.5159388318740187},
	} {
		if sin, cos := sinCosDouble(c.angle); math.Abs(sin-c.sin) > 3e-16 || math.Abs(cos-c.cos) > 3e-16 {
			t.Errorf("sine and cosine of %v: %v and %v, want %v and %v", c.angle, sin, cos, c.sin, c.cos)
		}
	}
}
