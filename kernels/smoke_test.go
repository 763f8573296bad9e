package kernels

import (
	"math"
	"math/rand/v2"
	"testing"
)

func TestMultiplyIsTheProduct(t *testing.T) {
	for _, f := range Formats() {
		for _, shape := range [][2]int{{1, 1}, {33, 5}, {64, 64}, {40, 192}, {70, 321}} {
			outputs, columns := shape[0], shape[1]
			m := Matrix{f, outputs, columns, make([]byte, MatrixBytes(f, outputs, columns))}
			r := rand.New(rand.NewPCG(1, 1))
			if err := Pack(m, func(_ int, dst []float32) {
				for i := range dst {
					dst[i] = float32(r.NormFloat64())
				}
			}); err != nil {
				t.Fatal(err)
			}
			var a Activations
			a.Reset(f.Quantized(), 1, columns)
			x := make([]float32, columns)
			for i := range x {
				x[i] = float32(r.NormFloat64())
			}
			s, _ := Select("")
			if err := s.Prepare(&a, 0, x); err != nil {
				t.Fatal(err)
			}
			dst := make([]float32, outputs)
			s.Multiply(dst, outputs, m, &a, []int32{0}, 0, outputs)
			w := make([]float32, columns)
			for o := range outputs {
				m.Unpack(o, w)
				want, size := 0.0, 0.0
				for i := range w {
					want += float64(w[i]) * float64(x[i])
					size += math.Abs(float64(w[i]) * float64(x[i]))
				}
				tolerance := 1e-5 * size
				if f == Q8 {
					tolerance = 2e-2 * size
				}
				if math.Abs(want-float64(dst[o])) > tolerance {
					t.Errorf("%v %v output %d: %v, want %v", f, shape, o, dst[o], want)
				}
			}
		}
	}
}

func TestTablesAndExp(t *testing.T) {
	for _, x := range []float64{0, 1, -1, 0.3, 100, 12345.678, 1e6} {
		s, c := sinCosDouble(x)
		if math.Abs(s-math.Sin(x)) > 1e-14 || math.Abs(c-math.Cos(x)) > 1e-14 {
			t.Errorf("sin, cos of %v: %v %v", x, s, c)
		}
	}
	for _, x := range []float64{1e6, 10000, 1, 0.5, 3} {
		if math.Abs(logDouble(x)-math.Log(x)) > 1e-14*math.Abs(math.Log(x))+1e-16 {
			t.Errorf("log %v: %v", x, logDouble(x))
		}
		if math.Abs(expDouble(-x/1e5)-math.Exp(-x/1e5)) > 1e-14 {
			t.Errorf("exp %v", x)
		}
	}
	worst := 0.0
	for x := float32(-87.3); x < 88.7; x += 0.0137 {
		want := math.Exp(float64(x))
		worst = max(worst, math.Abs(float64(Exp(x))-want)/want)
	}
	if worst > 1.2e-7 {
		t.Errorf("Exp: relative error %v", worst)
	}
}
