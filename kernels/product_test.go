package kernels

import (
	"errors"
	"math"
	"testing"
)

func TestProductsAreProducts(t *testing.T) {
	everyImplementation(t, func(t *testing.T, s *Set) {
		for _, f := range Formats() {
			for _, shape := range [][2]int{{1, 1}, {33, 5}, {64, 64}, {40, 192}, {70, 321}} {
				outputs, columns := shape[0], shape[1]
				in := newInputs(t, uint64(columns), ordinary)
				m := in.matrix(f, outputs, columns)
				a := &Activations{}
				a.Reset(f.Quantized(), 1, columns)
				x := in.floats(columns)
				if err := s.Prepare(a, 0, x); err != nil {
					t.Fatal(err)
				}
				dst, w := make([]float32, outputs), make([]float32, columns)
				s.Multiply(dst, outputs, m, a, []int32{0}, 0, outputs)
				largest := 0.0
				for _, v := range x {
					largest = max(largest, math.Abs(float64(v)))
				}
				for o := range outputs {
					m.Unpack(o, w)
					want, tolerance := 0.0, 0.0
					for i := range w {
						want += float64(w[i]) * float64(x[i])
						if f.Quantized() { // half a step of the activation's code
							tolerance += math.Abs(float64(w[i])) * largest / 127 / 2
						}
						tolerance += 1e-6 * math.Abs(float64(w[i])*float64(x[i]))
					}
					if math.Abs(want-float64(dst[o])) > tolerance {
						t.Errorf("%v %v output %d: %v, want %v ± %v", f, shape, o, dst[o], want, tolerance)
					}
				}
			}
		}
	})
}

func TestProductsDoNotDependOnNeighbours(t *testing.T) {
	everyImplementation(t, func(t *testing.T, s *Set) {
		for _, f := range Formats() {
			in := newInputs(t, 5, wide)
			const outputs, columns, rows = 100, 333, 7
			m, a := in.matrix(f, outputs, columns), in.activations(f.Quantized(), rows, columns)
			all := make([]float32, rows*outputs)
			s.Multiply(all, outputs, m, a, []int32{0, 1, 2, 3, 4, 5, 6}, 0, outputs)
			for r := range rows {
				alone := make([]float32, outputs)
				for from := 0; from < outputs; from += BlockOutputs {
					s.Multiply(alone, outputs, m, a, []int32{int32(r)}, from, min(from+BlockOutputs, outputs))
				}
				requireSame(t, f.String(), alone, all[r*outputs:(r+1)*outputs])
			}
		}
	})
}

func TestPrepare(t *testing.T) {
	everyImplementation(t, func(t *testing.T, s *Set) {
		a := &Activations{}
		a.Reset(true, 2, 130)
		x := make([]float32, 130)
		x[0], x[1], x[2], x[3] = 127, -127, 0.5, 1.5 // ties: to even
		x[64], x[65] = 0x1p-126, -0x1p-126           // a denormal scale: zeros
		x[128], x[129] = -254, 3
		if err := s.Prepare(a, 1, x); err != nil {
			t.Fatal(err)
		}
		want := make([]int8, PaddedColumns(130))
		want[0], want[1], want[2], want[3] = 127, -127, 0, 2
		want[128], want[129] = -127, 2
		requireSame(t, "codes", a.codes(1), want)
		requireSame(t, "scales", a.scales(1), []float32{1, 0, 2})

		clear(x)
		x[0], x[64] = 127*0x1p-126, math.Nextafter32(127*0x1p-126, 0) // the smallest normal scale, and one below
		if err := s.Prepare(a, 0, x); err != nil {
			t.Fatal(err)
		}
		clear(want)
		want[0] = 127
		requireSame(t, "codes", a.codes(0), want)
		requireSame(t, "scales", a.scales(0), []float32{0x1p-126, 0, 0})

		for _, quantized := range []bool{true, false} {
			for _, bad := range []float64{math.Inf(1), math.Inf(-1), math.NaN()} {
				for _, column := range []int{0, 63, 64, 128, 129} {
					a.Reset(quantized, 1, 130)
					for i := range x {
						x[i] = 1
					}
					x[column] = float32(bad)
					if err := s.Prepare(a, 0, x); !errors.Is(err, ErrNotFinite) {
						t.Errorf("%v in column %d: %v", bad, column, err)
					}
					for i, v := range a.Values {
						if v != 0 {
							t.Fatalf("value %d of a refused row is %v", i, v)
						}
					}
					requireSame(t, "codes of a refused row", a.Codes, make([]int8, len(a.Codes)))
					requireSame(t, "scales of a refused row", a.Scales, make([]float32, len(a.Scales)))
				}
			}
		}
	})
}

func TestWeightScales(t *testing.T) {
	everyImplementation(t, func(t *testing.T, s *Set) {
		weights := make([]float32, 4*GroupColumns)
		for g, largest := range []float32{
			127 * (1 + 0x1p-8), 127 * (1 + 0x3p-8), // ties between two bfloat16 scales
			127 * 0x1p-126, 126.5 * 0x1p-126, // the smallest normal scale, and one that is rounded to less
		} {
			weights[g*GroupColumns+1], weights[g*GroupColumns+2] = -largest, largest/2
		}
		codes, scales := make([]byte, len(weights)), make([]uint16, 4)
		s.operations.quantizeWeights(codes, scales, weights)
		requireSame(t, "scales", scales, []uint16{0x3f80, 0x3f82, 0x0080, 0})
		for g, want := range [][4]byte{{128, 1, 192, 128}, {128, 1, 191, 128}, {128, 1, 192, 128}, {128, 128, 128, 128}} {
			requireSame(t, "codes", codes[g*GroupColumns:][:4], want[:])
		}
	})
}

func TestActivationsReuseMemory(t *testing.T) {
	a := &Activations{}
	a.Reset(true, 3, 65)
	if len(a.Codes) != 3*68 || len(a.Scales) != 6 || len(a.Values) != 0 {
		t.Errorf("%d codes, %d scales, %d values", len(a.Codes), len(a.Scales), len(a.Values))
	}
	if n := testing.AllocsPerRun(10, func() { a.Reset(true, 2, 65); a.Reset(false, 0, 65) }); n != 0 {
		t.Errorf("%v allocations", n)
	}
}
