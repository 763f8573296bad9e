package kernels

import (
	"math"
	"testing"
)

func TestQ4PackedLayout(t *testing.T) {
	t.Parallel()
	weights := make([][]float32, 34)
	for o := range weights {
		weights[o] = make([]float32, 44)
		for c := range weights[o] {
			weights[o][c] = float32((o*7+c)%16 - 8)
		}
		weights[o][3], weights[o][33] = -8, -8 // exact with the scale 1
	}
	const group = 64 + 4*128
	const block = group + 64 + 2*128 // the last group has 12 columns: two pairs
	m := packed(t, Q4, weights)
	if len(m.Data) != 2*block {
		t.Fatalf("%d bytes, want %d", len(m.Data), 2*block)
	}
	code := func(output, column int) int {
		quad := column % 32 / 4
		b := m.Data[output/32*block+column/32*group+64+quad/2*128+output%32*4+column%4]
		return int(b>>(4*(quad%2))&15) - 8
	}
	for o := range 64 {
		for c := range 48 {
			want := 0 // missing outputs and columns
			if o < 34 && c < 44 {
				want = int(weights[o][c])
			}
			if got := code(o, c); got != want {
				t.Fatalf("code of output %d, column %d is %d, want %d", o, c, got, want)
			}
		}
		if o < 34 {
			if scale := m.Data[o/32*block+o%32*2:][:2]; scale[0] != 0x80 || scale[1] != 0x3f {
				t.Fatalf("scale of output %d is %x, want bfloat16 1", o, scale)
			}
		}
	}
}

// squaredError is the squared error of one group with a scale, codes being the nearest.
func squaredError(group []float32, scale float64) float64 {
	sum := 0.0
	for _, w := range group {
		code := min(max(math.RoundToEven(float64(w)/scale), -8), 7)
		sum += (float64(w) - code*scale) * (float64(w) - code*scale)
	}
	return sum
}

// The search against scales in fine steps, and against rounding with the largest magnitude at code -8 (llama.cpp's Q4_0) or 7.
func TestQ4ScalesMinimiseTheError(t *testing.T) {
	everyImplementation(t, func(t *testing.T, s *Set) {
		in := newInputs(t, 3, ordinary)
		const groups = 400
		weights := in.floats(groups * Q4GroupColumns)
		codes, scales := make([]byte, len(weights)), make([]uint16, groups)
		s.operations.quantizeWeightsQ4(codes, scales, weights)
		var got, minusEight, seven, finest, squares float64
		for g := range groups {
			group := weights[g*Q4GroupColumns:][:Q4GroupColumns]
			largest := 0.0
			for _, w := range group {
				squares += float64(w) * float64(w)
				if math.Abs(float64(w)) > math.Abs(largest) {
					largest = float64(w)
				}
			}
			for c, w := range group {
				e := float64(w) - float64(int(codes[g*Q4GroupColumns+c])-8)*float64(fromBF16(scales[g]))
				got += e * e
			}
			minusEight += squaredError(group, largest/-8)
			seven += squaredError(group, largest/7)
			best := math.Inf(1)
			for n := 5.0; n < 12; n += 1.0 / 64 {
				best = min(best, squaredError(group, largest/-n), squaredError(group, largest/n))
			}
			finest += best
		}
		relative := func(e float64) float64 { return math.Sqrt(e / squares) }
		t.Logf("relative errors: search %.4f, largest at -8 %.4f, at 7 %.4f, fine search %.4f", relative(got), relative(minusEight), relative(seven), relative(finest))
		if relative(got) > 0.96*relative(minusEight) || relative(got) > 0.85*relative(seven) || relative(got) > 1.02*relative(finest) {
			t.Error("the search is worse than it should be")
		}
	})
}

func TestQ4Groups(t *testing.T) {
	everyImplementation(t, func(t *testing.T, s *Set) {
		weights := make([]float32, 5*Q4GroupColumns)
		for g, values := range [][3]float32{
			{-8, 7, 3}, {8, -7, 1}, // the largest gets code -8, whatever its sign
			{5, -5, 0},                                                      // of two equals the positive one
			{0x1p-122, -0x1p-123, 0}, {math.Nextafter32(0x1p-122, 0), 0, 0}, // the smallest that is kept, and one below
		} {
			copy(weights[g*Q4GroupColumns+4:], values[:])
		}
		codes, scales := make([]byte, len(weights)), make([]uint16, 5)
		s.operations.quantizeWeightsQ4(codes, scales, weights)
		for g, want := range []struct {
			scale float32
			codes [3]byte
		}{{1, [3]byte{0, 15, 11}}, {-1, [3]byte{0, 15, 7}}, {}, {-0x1p-125, [3]byte{0, 12, 8}}, {0, [3]byte{8, 8, 8}}} {
			if g == 2 {
				if fromBF16(scales[g]) >= 0 {
					t.Errorf("scale of two equals is %v", fromBF16(scales[g]))
				}
				continue
			}
			if got := fromBF16(scales[g]); got != want.scale {
				t.Errorf("group %d: scale %v, want %v", g, got, want.scale)
			}
			requireSame(t, "codes", codes[g*Q4GroupColumns+4:][:3], want.codes[:])
		}
	})
}
