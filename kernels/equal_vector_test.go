package kernels

import (
	"errors"
	"fmt"
	"math"
	"testing"

	"pgregory.net/rapid"
)

// results collects what an operation gave.
type results struct {
	floats []float32
	ints   []int64
}

func (r *results) add(x ...float32) { r.floats = append(r.floats, x...) }

func addInts[T int8 | uint8 | uint16 | int64](r *results, x []T) {
	for _, v := range x {
		r.ints = append(r.ints, int64(v))
	}
}

type vectorOperation struct {
	name string
	run  func(s *Set, in *inputs, n int, r *results)
}

// vectorOperations are the methods of Set on vectors of about n elements.
var vectorOperations = []vectorOperation{
	{"Prepare quantized", func(s *Set, in *inputs, n int, r *results) {
		a := &Activations{Rows: 1, Columns: n, Quantized: true, Codes: buffer[int8](in, PaddedColumns(n)), Scales: buffer[float32](in, Groups(n))}
		if err := s.Prepare(a, 0, in.floats(n)); err != nil {
			r.ints = append(r.ints, -1)
		}
		addInts(r, a.Codes)
		r.add(a.Scales...)
	}},
	{"Prepare float", func(s *Set, in *inputs, n int, r *results) {
		a := &Activations{Rows: 1, Columns: n, Values: buffer[float32](in, n)}
		if err := s.Prepare(a, 0, in.floats(n)); err != nil {
			r.ints = append(r.ints, -1)
		}
		r.add(a.Values...)
	}},
	{"quantizeWeights", func(s *Set, in *inputs, n int, r *results) {
		if in.kind == notFinite { // Pack refuses them before
			in.kind = wide
		}
		codes, scales := buffer[byte](in, PaddedColumns(n)), buffer[uint16](in, Groups(n))
		s.operations.quantizeWeights(codes, scales, in.floats(n))
		addInts(r, codes)
		addInts(r, scales)
	}},
	{"quantizeWeightsQ4", func(s *Set, in *inputs, n int, r *results) {
		if in.kind == notFinite { // Pack refuses them before
			in.kind = wide
		}
		codes, scales := buffer[byte](in, fourBitColumns(n)), buffer[uint16](in, q4Groups(n))
		s.operations.quantizeWeightsQ4(codes, scales, in.floats(n))
		addInts(r, codes)
		addInts(r, scales)
	}},
	{"quantizeWeightsMXFP4", func(s *Set, in *inputs, n int, r *results) {
		if in.kind == notFinite { // Pack refuses them before
			in.kind = wide
		}
		codes, scales := buffer[byte](in, fourBitColumns(n)), buffer[byte](in, mxfp4Groups(n))
		s.operations.quantizeWeightsMXFP4(codes, scales, in.floats(n))
		addInts(r, codes)
		addInts(r, scales)
	}},
	{"SiLUMultiply", func(s *Set, in *inputs, n int, r *results) {
		dst := buffer[float32](in, n)
		s.SiLUMultiply(dst, in.exponents(n), in.floats(n))
		r.add(dst...)
	}},
	{"SiLUMultiply in place", func(s *Set, in *inputs, n int, r *results) {
		gate := in.exponents(n)
		s.SiLUMultiply(gate, gate, in.floats(n))
		r.add(gate...)
	}},
	{"RMSNorm", func(s *Set, in *inputs, n int, r *results) {
		dst := buffer[float32](in, n)
		s.RMSNorm(dst, in.floats(n), in.floats(n), 1e-6)
		r.add(dst...)
	}},
	{"RMSNorm in place", func(s *Set, in *inputs, n int, r *results) {
		x := in.floats(n)
		s.RMSNorm(x, x, in.floats(n), 1e-6)
		r.add(x...)
	}},
	{"Rotate", func(s *Set, in *inputs, n int, r *results) {
		half := n%70 + 1
		heads := in.floats(2 * half * (n%3 + 1))
		s.Rotate(heads, 2*half, in.floats(half), in.floats(half))
		r.add(heads...)
	}},
	{"Divide", func(s *Set, in *inputs, n int, r *results) {
		x := in.floats(n)
		s.Divide(x, in.float())
		r.add(x...)
	}},
	{"Add", func(s *Set, in *inputs, n int, r *results) {
		x := in.floats(n)
		s.Add(x, in.floats(n))
		r.add(x...)
	}},
	{"AddScaled", func(s *Set, in *inputs, n int, r *results) {
		x := in.floats(n)
		s.AddScaled(x, in.floats(n), in.float())
		r.add(x...)
	}},
	{"Softmax", func(s *Set, in *inputs, n int, r *results) {
		x := in.exponents(n)
		s.Softmax(x)
		r.add(x...)
	}},
	{"Accumulate", func(s *Set, in *inputs, n int, r *results) {
		sum, y := buffer[int64](in, n), in.floats(n)
		weight := float32(in.random.NormFloat64())
		if in.kind == ordinary && n > 0 { // around the limits of the quick way and of the range
			y[in.random.IntN(n)] = float32(math.Ldexp(in.random.Float64()*2-1, 20+in.random.IntN(5)))
			weight = 1
		}
		for i := range sum {
			sum[i] = int64(in.random.Uint64() >> 8)
		}
		if err := s.Accumulate(sum, y, weight); err != nil {
			if !errors.Is(err, ErrOverflow) {
				in.t.Fatal(err)
			}
			r.ints = append(r.ints, -1)
			return // sum is undefined
		}
		addInts(r, sum)
	}},
	{"FromFixed", func(s *Set, in *inputs, n int, r *results) {
		sum := buffer[int64](in, n)
		for i := range sum {
			sum[i] = int64(in.random.Uint64()) >> in.random.IntN(64)
		}
		dst := buffer[float32](in, n)
		s.FromFixed(dst, sum)
		r.add(dst...)
	}},
}

// exponents are arguments of Exp, most of them where it is neither 0 nor infinite.
func (in *inputs) exponents(n int) []float32 {
	x := in.floats(n)
	for i := range x {
		switch in.random.IntN(4) {
		case 0:
			x[i] = float32(in.random.Float64()*200 - 100)
		case 1:
			x[i] = [...]float32{expHighest, expLowest, -expHighest, -expLowest}[in.random.IntN(4)] + float32(in.random.IntN(9)-4)*0x1p-17
		}
	}
	return x
}

func checkVectors(t testing.TB, s *Set, n int, kind valueKind, seed uint64) {
	t.Helper()
	for _, operation := range vectorOperations {
		part(t, func(t testing.TB) {
			t.Helper()
			var got, want results
			operation.run(s, newInputs(t, seed, kind), n, &got)
			operation.run(&generic, newInputs(t, seed, kind), n, &want)
			what := fmt.Sprintf("%s, n = %d, %v values, seed %d", operation.name, n, kind, seed)
			requireSame(t, what, got.floats, want.floats)
			requireSame(t, what, got.ints, want.ints)
		})
	}
}

// callsLength is the length of vectors that implementations cut into several calls.
const callsLength = 16384 + 1027

func TestVectorsEqualReference(t *testing.T) {
	eachImplementation(t, func(t *testing.T, s *Set) {
		for kind := range valueKinds {
			t.Run(kind.String(), func(t *testing.T) {
				t.Parallel()
				for n := range 72 {
					checkVectors(t, s, n, kind, uint64(n))
				}
				for _, n := range []int{95, 127, 128, 149, 192, 257, callsLength} {
					checkVectors(t, s, n, kind, uint64(n))
				}
			})
		}
	})
}

func TestVectorsEqualReferenceForAnyValues(t *testing.T) {
	eachImplementation(t, func(t *testing.T, s *Set) {
		rapid.Check(t, func(rt *rapid.T) {
			kind := valueKind(rapid.IntRange(0, int(valueKinds)-1).Draw(rt, "kind"))
			checkVectors(t, s, rapid.IntRange(0, 400).Draw(rt, "n"), kind, rapid.Uint64().Draw(rt, "seed"))
		})
	})
}

func FuzzVectors(f *testing.F) {
	f.Add(uint16(17), uint8(0), uint64(1))
	f.Add(uint16(200), uint8(6), uint64(2))
	f.Fuzz(func(t *testing.T, n uint16, kind uint8, seed uint64) {
		for _, name := range Available() {
			if s, err := Select(name); err == nil && s != &generic {
				checkVectors(t, s, int(n)%700, valueKind(kind)%valueKinds, seed)
			}
		}
	})
}

// Exp itself is not a method: expMinus with shift 0 is compared over float32 patterns of all magnitudes.
func TestExpEqualsReference(t *testing.T) {
	eachImplementation(t, func(t *testing.T, s *Set) {
		const step = 7919
		x := make([]float32, 0, 1<<32/step+1)
		for b := uint64(0); b < 1<<32; b += step {
			x = append(x, math.Float32frombits(uint32(b)))
		}
		for _, edge := range []float32{expLowest, expHighest, 0, 0x1p-126, float32(math.Inf(1)), float32(math.Inf(-1))} {
			for d := range uint32(41) {
				x = append(x, math.Float32frombits(math.Float32bits(edge)+d-20))
			}
		}
		want := make([]float32, len(x))
		for i, v := range x {
			want[i] = Exp(v)
		}
		s.operations.expMinus(x, 0)
		requireSame(t, "Exp", x, want)
	})
}
