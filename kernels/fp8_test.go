package kernels

import (
	"encoding/binary"
	"errors"
	"math"
	"strings"
	"testing"
)

// e4m3Value computes a value from the format's definition.
func e4m3Value(code int) float64 {
	sign := float64(1 - code>>7*2)
	exponent, fraction := code>>3&15, float64(code&7)
	if exponent == 0 {
		return sign * math.Ldexp(fraction/8, -6)
	}
	return sign * math.Ldexp(1+fraction/8, exponent-7)
}

// Rounding to e4m3 against a search of all values: the nearest, of two the one with the even byte.
func TestToE4M3(t *testing.T) {
	t.Parallel()
	nearest := func(x float64) byte {
		best, distance := 0, math.Inf(1)
		for code := range 0x7f {
			d := math.Abs(e4m3Value(code) - math.Abs(x))
			if d < distance || d == distance && code%2 == 0 {
				best, distance = code, d
			}
		}
		if math.Signbit(x) {
			best |= 0x80
		}
		return byte(best)
	}
	check := func(x float32) {
		if got, want := toE4M3(x), nearest(float64(x)); got != want {
			t.Fatalf("%v becomes %#02x, want %#02x", x, got, want)
		}
	}
	for code := range 0x7f {
		v := float32(e4m3Value(code))
		if got := e4m3Values[code]; got != float64(v) || e4m3Values[code|0x80] != -float64(v) {
			t.Fatalf("%#02x is %v, want %v", code, got, v)
		}
		check(v)
		check(-v)
		if code < 0x7e {
			middle := (v + float32(e4m3Value(code+1))) / 2
			check(middle)
			check(-middle)
			check(math.Nextafter32(middle, 0))
			check(math.Nextafter32(middle, 500))
		}
	}
	in := newInputs(t, 1, ordinary)
	for range 2000 {
		check(min(max(in.float()*float32(math.Ldexp(1, in.random.IntN(20)-12)), -448), 448))
	}
}

// Stored bytes and scales are kept as they are, wherever they lie, and products use exactly them.
func TestPackStored(t *testing.T) {
	everyImplementation(t, func(t *testing.T, s *Set) {
		for _, columns := range []int{1, 127, 128, 129, 192, 384} {
			const outputs = 40
			in := newInputs(t, uint64(columns), ordinary)
			codes, scales := make([][]byte, outputs), make([][]float32, outputs)
			for o := range codes {
				codes[o], scales[o] = make([]byte, columns), in.floats((columns+127)/128)
				for c := range codes[o] {
					if codes[o][c] = byte(in.random.Uint32()); codes[o][c]&0x7f == 0x7f {
						codes[o][c] = 1 // the smallest
					}
				}
			}
			m := Matrix{FP8, outputs, columns, make([]byte, MatrixBytes(FP8, outputs, columns))}
			for i := range m.Data {
				m.Data[i] = 0xa5
			}
			if err := PackStored(m, func(o int, c []byte, s []float32) { copy(c, codes[o]); copy(s, scales[o]) }); err != nil {
				t.Fatal(err)
			}
			row := make([]float32, columns)
			block := (columns+127)/128*128 + (columns+1)/2*64
			for o := range outputs {
				m.Unpack(o, row)
				for c := range columns {
					at := o/32*block + c/128*(128+128*32)
					if got := m.Data[at+128+c%128*32+o%32]; got != codes[o][c] {
						t.Fatalf("byte of output %d, column %d is %#02x, want %#02x", o, c, got, codes[o][c])
					}
					if got := math.Float32frombits(binary.LittleEndian.Uint32(m.Data[at+o%32*4:])); got != scales[o][c/128] {
						t.Fatalf("scale of output %d, column %d is %v, want %v", o, c, got, scales[o][c/128])
					}
					if want := float32(e4m3Value(int(codes[o][c]))) * scales[o][c/128]; row[c] != want {
						t.Fatalf("weight of output %d, column %d is %v, want %v", o, c, row[c], want)
					}
				}
			}
			a := in.activations(false, 1, columns)
			got := make([]float32, outputs)
			s.Multiply(got, outputs, m, a, []int32{0}, 0, outputs)
			want := make([]float32, outputs)
			for o := range want {
				for g, scale := range scales[o] {
					sum := float32(0)
					for c := g * 128; c < min(columns, g*128+128); c++ {
						sum = FMA(a.Values[c], float32(e4m3Value(int(codes[o][c]))), sum)
					}
					want[o] = FMA(sum, scale, want[o])
				}
			}
			requireSame(t, "products", got, want)
		}
	})
}

func TestPackStoredRefuses(t *testing.T) {
	t.Parallel()
	m := Matrix{FP8, 40, 200, make([]byte, MatrixBytes(FP8, 40, 200))}
	fill := func(code byte, scale float32) func(int, []byte, []float32) {
		return func(o int, codes []byte, scales []float32) {
			clear(codes)
			clear(scales)
			if o == 35 {
				codes[150], scales[1] = code, scale
			}
		}
	}
	for want, row := range map[string]func(int, []byte, []float32){
		"output row 35, column 150 is NaN":               fill(0xff, 1),
		"output row 35, the scale of column 128 is NaN":  fill(1, float32(math.NaN())),
		"output row 35, the scale of column 128 is +Inf": fill(1, float32(math.Inf(1))),
	} {
		if err := PackStored(m, row); !errors.Is(err, ErrWeight) || !strings.Contains(err.Error(), want) {
			t.Errorf("%v, want %q", err, want)
		}
	}
	m.Data = m.Data[:64]
	if err := PackStored(m, fill(0, 0)); err == nil || !strings.Contains(err.Error(), "64 bytes given") {
		t.Error(err)
	}
	if err := PackStored(Matrix{Format: Q8}, fill(0, 0)); err == nil || !strings.Contains(err.Error(), "q8") {
		t.Error(err)
	}
}
