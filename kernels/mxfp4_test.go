package kernels

import (
	"errors"
	"math"
	"strings"
	"testing"
)

// e2m1Value computes a value from the format's definition.
func e2m1Value(code int) float64 {
	sign, exponent, fraction := float64(1-code>>3*2), code>>1&3, float64(code&1)
	if exponent == 0 {
		return sign * fraction / 2
	}
	return sign * math.Ldexp(1+fraction/2, exponent-1)
}

func TestMXFP4PackedLayout(t *testing.T) {
	t.Parallel()
	weights := make([][]float32, 34)
	for o := range weights {
		weights[o] = make([]float32, 108)
		for c := range weights[o] {
			weights[o][c] = float32(math.Ldexp(e2m1Value((o*7+c)%16), c/32))
		}
		weights[o][3], weights[o][33], weights[o][67], weights[o][99] = 6, 12, 24, 48 // exact with the scales 1, 2, 4, 8 only
	}
	const group = 64 + 8*128
	const block = group + 64 + 6*128 // the last group has 44 columns: six pairs
	m := packed(t, MXFP4, weights)
	if len(m.Data) != 2*block {
		t.Fatalf("%d bytes, want %d", len(m.Data), 2*block)
	}
	for o := range 64 {
		for c := range 112 {
			want, scale := 0.0, byte(127) // missing outputs and columns
			if o < 34 && c < 108 {
				want = float64(weights[o][c])
			}
			if o < 34 {
				scale += byte(c / 32)
			}
			at := o/32*block + c/64*group
			if got := m.Data[at+c%64/32*32+o%32]; got != scale {
				t.Fatalf("scale of output %d, column %d is %d, want %d", o, c, got, scale)
			}
			quad := c % 64 / 4
			code := m.Data[at+64+quad/2*128+o%32*4+c%4] >> (4 * (quad % 2)) & 15
			if got := math.Ldexp(e2m1Value(int(code)), int(scale)-127); got != want {
				t.Fatalf("output %d, column %d is %v, want %v", o, c, got, want)
			}
		}
	}
}

func TestMXFP4Values(t *testing.T) {
	t.Parallel()
	for code := range 16 {
		for e := range 255 {
			want := float32(math.Ldexp(e2m1Value(code), e-127))
			got := mxfp4Value(byte(code), byte(e))
			if got != want || math.Signbit(float64(got)) != (code >= 8) {
				t.Fatalf("code %d with the scale %d is %v, want %v", code, e, got, want)
			}
		}
		if got := float64(mxfp4Bytes[code]) - 12; got != 2*e2m1Value(code) {
			t.Errorf("twice the value of code %d is %v", code, got)
		}
	}
	if mxfp4Factor(0) != 0x1p-128 || mxfp4Factor(1) != 0x1p-127 || mxfp4Factor(254) != 0x1p126 {
		t.Error("a factor is wrong")
	}
}

// Rounding to e2m1 against a search of all values: the nearest, of two the one with the even code.
func TestMXFP4Code(t *testing.T) {
	t.Parallel()
	check := func(size float32) {
		best, distance := 0, math.Inf(1)
		for code := range 8 {
			d := math.Abs(e2m1Value(code) - float64(size))
			if d < distance || d == distance && code%2 == 0 {
				best, distance = code, d
			}
		}
		if got := mxfp4Code(size); got != byte(best) {
			t.Fatalf("%v becomes code %d, want %d", size, got, best)
		}
	}
	for code := range 7 {
		middle := float32(e2m1Value(code)+e2m1Value(code+1)) / 2
		for _, size := range []float32{float32(e2m1Value(code)), middle, math.Nextafter32(middle, 0), math.Nextafter32(middle, 9)} {
			check(size)
		}
	}
	for size := float32(0); size < 20; size += 0.0137 {
		check(size)
	}
}

// The three exponents that are tried against all that there are.
func TestMXFP4ScalesMinimiseTheError(t *testing.T) {
	everyImplementation(t, func(t *testing.T, s *Set) {
		squares, got, specification := 0.0, 0.0, 0.0
		for _, kind := range []valueKind{ordinary, sparse, short, wide} {
			in := newInputs(t, uint64(kind), kind)
			for range 400 {
				group := in.floats(MXFP4GroupColumns)
				outlier := in.random.IntN(3) == 0
				if outlier { // a large one among others of about one size
					for i := range group {
						group[i] = float32(math.Ldexp(1+in.random.Float64()*0.1, -in.random.IntN(2)))
					}
					group[5] = float32(math.Ldexp(1+in.random.Float64(), in.random.IntN(7)))
				}
				cost := func(e int) (sum float64) {
					for _, w := range group {
						size := math.Abs(float64(w))
						d := size - math.Ldexp(e2m1Value(int(mxfp4Code(float32(math.Ldexp(size, 127-e))))), e-127)
						sum += d * d
					}
					return sum
				}
				codes, scale := make([]byte, MXFP4GroupColumns), make([]byte, 1)
				s.operations.quantizeWeightsMXFP4(codes, scale, group)
				best := math.Inf(1)
				largest, size := 0.0, 0.0
				for _, w := range group {
					largest, size = max(largest, math.Abs(float64(w))), size+float64(w)*float64(w)
				}
				if largest < 0x1p-124 || largest > 0x1p120 {
					continue
				}
				for e := range 253 {
					best = min(best, cost(e))
				}
				if c := cost(int(scale[0])); c > best*(1+1e-5) {
					t.Fatalf("%v: the scale %d has the error %v, another one %v: %v", kind, scale[0], c, best, group)
				}
				actual := 0.0
				for i, w := range group {
					d := float64(w) - float64(mxfp4Value(codes[i], scale[0]))
					actual += d * d
				}
				if c := cost(int(scale[0])); math.Abs(actual-c) > 1e-9*c {
					t.Fatalf("%v: the codes have the error %v, the nearest ones %v", kind, actual, c)
				}
				if kind == ordinary && !outlier {
					_, exponent := math.Frexp(largest)
					squares, got, specification = squares+size, got+actual, specification+cost(exponent-3+127)
				}
			}
		}
		t.Logf("relative errors of normally distributed weights: search %.4f, the specification's scale %.4f", math.Sqrt(got/squares), math.Sqrt(specification/squares))
		if got > 0.97*specification {
			t.Error("the search gains too little")
		}
	})
}

func TestMXFP4Groups(t *testing.T) {
	everyImplementation(t, func(t *testing.T, s *Set) {
		below := math.Nextafter32(0x1p-124, 0)
		for _, c := range []struct {
			weights []float32
			scale   byte
			codes   []byte
		}{
			{[]float32{0, float32(math.Copysign(0, -1))}, 127, []byte{0, 0}},
			{[]float32{below, -below}, 127, []byte{0, 0}},
			{[]float32{0x1p-124, -0x1p-126}, 1, []byte{6, 10}},                   // 2^-124 is 4 times 2^-126
			{[]float32{4, 2, -1}, 127, []byte{6, 4, 10}},                         // exact with 1 and 2: the specification's
			{[]float32{7, 4}, 127, []byte{7, 6}},                                 // 6 is as wrong as 8: the specification's
			{[]float32{7.5, 1, 1}, 128, []byte{6, 1, 1}},                         // 8 is better than 6
			{[]float32{6.5, 0.5, 0.5, -0.5, 0.5}, 127, []byte{7, 1, 1, 9, 1}},    // better cut
			{[]float32{math.MaxFloat32, -math.MaxFloat32}, 252, []byte{7, 15}},   // cut: 8 would be infinite
			{[]float32{float32(math.Copysign(1e-30, -1)), 1}, 125, []byte{8, 6}}, // the sign of what becomes zero stays
			{[]float32{4, .25, .25, .25, .25, .25, .25, .25, .25, .25, .25, .25, .25, .25, .25, .25, .25, .25, .25}, 126, // better cut still more
				[]byte{7, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1}},
		} {
			codes, scales := make([]byte, MXFP4GroupColumns), make([]byte, 1)
			s.operations.quantizeWeightsMXFP4(codes, scales, append(c.weights, make([]float32, MXFP4GroupColumns-len(c.weights))...))
			if scales[0] != c.scale {
				t.Errorf("%v: scale %d, want %d", c.weights, scales[0], c.scale)
			}
			requireSame(t, "codes", codes[:len(c.weights)], c.codes)
		}
	})
}

// Stored codes and scales are kept as they are, wherever they lie, and products use exactly them: scales of 0 and 1, too, half of
// which is denormal, and of 254.
func TestPackStoredMXFP4(t *testing.T) {
	everyImplementation(t, func(t *testing.T, s *Set) {
		for _, columns := range []int{1, 31, 32, 33, 64, 96, 100, 352} {
			const outputs = 40
			in := newInputs(t, uint64(columns), ordinary)
			groups := (columns + 31) / 32
			blocks, scales := make([][]byte, outputs), make([][]byte, outputs)
			code := func(o, c int) byte { return blocks[o][c/2] >> (c % 2 * 4) & 15 }
			for o := range blocks {
				blocks[o], scales[o] = make([]byte, 16*groups), make([]byte, groups)
				for g := range groups {
					scales[o][g] = byte([]int{0, 1, 2, 120 + in.random.IntN(20), 252, 253, 254}[in.random.IntN(7)])
					for i := range 16 {
						blocks[o][16*g+i] = byte(in.random.Uint32())
						if scales[o][g] > 252 {
							blocks[o][16*g+i] &= 0xbb // at most 1.5
						}
					}
				}
			}
			m := Matrix{MXFP4, outputs, columns, make([]byte, MatrixBytes(MXFP4, outputs, columns))}
			for i := range m.Data {
				m.Data[i] = 0xa5
			}
			if err := PackStoredMXFP4(m, func(o int, b, s []byte) { copy(b, blocks[o]); copy(s, scales[o]) }); err != nil {
				t.Fatal(err)
			}
			row := make([]float32, columns)
			block := (columns+63)/64*64 + (columns+7)/8*128
			for o := range outputs {
				m.Unpack(o, row)
				for c := range columns {
					at, quad := o/32*block+c/64*(64+8*128), c%64/4
					if got, want := m.Data[at+64+quad/2*128+o%32*4+c%4]>>(4*(quad%2))&15, code(o, c); got != want {
						t.Fatalf("code of output %d, column %d is %d, want %d", o, c, got, want)
					}
					if got := m.Data[at+c%64/32*32+o%32]; got != scales[o][c/32] {
						t.Fatalf("scale of output %d, column %d is %d, want %d", o, c, got, scales[o][c/32])
					}
					if want := float32(math.Ldexp(e2m1Value(int(code(o, c))), int(scales[o][c/32])-127)); math.Float32bits(row[c]) != math.Float32bits(want) && want != 0 {
						t.Fatalf("weight of output %d, column %d is %v, want %v", o, c, row[c], want)
					}
				}
			}
			a := in.activations(true, 3, columns)
			for i := range a.Scales[:groups/2] { // products that are denormal numbers
				a.Scales[i] *= 0x1p-20
			}
			got, want := make([]float32, 3*outputs), make([]float32, 3*outputs)
			s.Multiply(got, outputs, m, a, []int32{0, 1, 2}, 0, outputs)
			for i := range want {
				r, o := i/outputs, i%outputs
				for g, e := range scales[o] {
					dot := 0.0
					for c := g * 32; c < min(columns, g*32+32); c++ {
						dot += float64(a.codes(r)[c]) * 2 * e2m1Value(int(code(o, c)))
					}
					factor := float32(math.Ldexp(float64(a.scales(r)[g/2]), int(e)-128)) // rounded once
					want[i] = FMA(float32(dot), factor, want[i])
				}
			}
			requireSame(t, "products", got, want)
		}
	})
}

func TestPackStoredMXFP4Refuses(t *testing.T) {
	t.Parallel()
	m := Matrix{MXFP4, 40, 72, make([]byte, MatrixBytes(MXFP4, 40, 72))}
	fill := func(code, scale byte) func(int, []byte, []byte) {
		return func(o int, blocks, scales []byte) {
			clear(blocks)
			clear(scales)
			if o == 35 {
				blocks[35], scales[2] = code, scale
			}
		}
	}
	for want, row := range map[string]func(int, []byte, []byte){
		"output row 35, the scale of column 64 is NaN":                         fill(0, 255),
		"output row 35, column 70 is 2 times 2^127, out of range for float32":  fill(4, 254),
		"output row 35, column 71 is -4 times 2^126, out of range for float32": fill(14<<4, 253),
		"output row 35, column 70 is 6 times 2^126, out of range for float32":  fill(7, 253),
		"":                                fill(5, 253), // 3 times 2^126
		"is -6 times 2^127, out of range": fill(15, 254),
	} {
		err := PackStoredMXFP4(m, row)
		if want == "" {
			if err != nil {
				t.Error(err)
			}
			continue
		}
		if !errors.Is(err, ErrWeight) || !strings.Contains(err.Error(), want) {
			t.Errorf("%v, want %q", err, want)
		}
	}
	// What lies behind the last column is not looked at.
	if err := PackStoredMXFP4(m, func(_ int, blocks, scales []byte) {
		clear(blocks)
		clear(scales)
		blocks[36], scales[2] = 7, 254
	}); err != nil {
		t.Error(err)
	}
	m.Data = m.Data[:64]
	if err := PackStoredMXFP4(m, fill(0, 0)); err == nil || !strings.Contains(err.Error(), "64 bytes given") {
		t.Error(err)
	}
	if err := PackStoredMXFP4(Matrix{Format: Q8}, fill(0, 0)); err == nil || !strings.Contains(err.Error(), "q8") {
		t.Error(err)
	}
}
