package kernels

import (
	"errors"
	"math"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"
)

// packed packs weights [outputs][columns].
func packed(t testing.TB, f Format, weights [][]float32) Matrix {
	t.Helper()
	outputs, columns := len(weights), len(weights[0])
	m := Matrix{f, outputs, columns, make([]byte, MatrixBytes(f, outputs, columns))}
	for i := range m.Data {
		m.Data[i] = 0xa5 // Pack must write every byte
	}
	if err := Pack(m, func(o int, dst []float32) { copy(dst, weights[o]) }); err != nil {
		t.Fatal(err)
	}
	return m
}

func TestPackedLayout(t *testing.T) {
	t.Parallel()
	weights := make([][]float32, 34)
	for o := range weights {
		weights[o] = make([]float32, 70)
		for c := range weights[o] {
			weights[o][c] = float32((o*7+c)%255 - 127)
		}
		weights[o][3], weights[o][66] = 127, -127 // scales of exactly 1
	}
	const secondBlock = fullGroupBytes + scaleBytes + 2*quadBytes // a full group and one of two quads
	m := packed(t, Q8, weights)
	if len(m.Data) != 2*secondBlock || len(m.Data)%64 != 0 {
		t.Fatalf("%d bytes", len(m.Data))
	}
	at := func(output, column int) int {
		group, quad := column/64, column%64/4
		return output/32*secondBlock + group*fullGroupBytes + scaleBytes + quad*quadBytes + output%32*4 + column%4
	}
	for o := range weights {
		for c, w := range weights[o] {
			if got := int(m.Data[at(o, c)]) - 128; got != int(w) {
				t.Fatalf("code of output %d, column %d is %d, want %v", o, c, got, w)
			}
		}
		if scale := m.Data[at(o, 0)/1-scaleBytes-o%32*4+o%32*2:][:2]; scale[0] != 0x80 || scale[1] != 0x3f {
			t.Fatalf("scale of output %d is %x, want bfloat16 1", o, scale)
		}
	}
	for o := 34; o < 64; o++ {
		for c := range 72 {
			if m.Data[at(o, c)] != 128 {
				t.Fatalf("missing output %d, column %d is not zero", o, c)
			}
		}
	}
	for c := 70; c < 72; c++ {
		if m.Data[at(5, c)] != 128 {
			t.Fatalf("missing column %d is not zero", c)
		}
	}
}

func TestMatrixBytes(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		f                      Format
		outputs, columns, want int
	}{
		{F32, 1, 1, 128}, {F32, 33, 10, 2 * 32 * 10 * 4}, {BF16, 32, 3, 192}, {Q8, 32, 64, 64 + 16*128},
		{Q8, 32, 65, 2*64 + 17*128}, {Q8, 33, 5, 2 * (64 + 2*128)}, {Q8, 0, 64, 0},
		{FP8, 32, 128, 128 + 128*32}, {FP8, 33, 131, 2 * (2*128 + 132*32)}, {Q4, 32, 64, 2 * (64 + 4*128)}, {Q4, 33, 37, 2 * (2*64 + 5*128)}, {Q4, 1, 44, 2*64 + 6*128},
		{MXFP4, 32, 64, 64 + 8*128}, {MXFP4, 33, 69, 2 * (2*64 + 9*128)}, {MXFP4, 1, 31, 64 + 4*128},
	} {
		if got := MatrixBytes(c.f, c.outputs, c.columns); got != c.want || got%64 != 0 {
			t.Errorf("MatrixBytes(%v, %d, %d) = %d, want %d", c.f, c.outputs, c.columns, got, c.want)
		}
	}
}

func TestUnpackGivesWhatWasPacked(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(rt *rapid.T) {
		outputs, columns := rapid.IntRange(1, 70).Draw(rt, "outputs"), rapid.IntRange(1, 200).Draw(rt, "columns")
		kind := valueKind(rapid.IntRange(0, int(notFinite)-1).Draw(rt, "kind"))
		in := newInputs(t, rapid.Uint64().Draw(rt, "seed"), kind)
		weights := make([][]float32, outputs)
		for o := range weights {
			weights[o] = make([]float32, columns)
			for c := range weights[o] {
				weights[o][c] = min(max(in.float(), -0x1p127), 0x1p127)
			}
		}
		got := make([]float32, columns)
		for _, f := range Formats() {
			m := packed(t, f, weights)
			for o, row := range weights {
				m.Unpack(o, got)
				for c, w := range row {
					if want, tolerance := expectedWeight(f, row, c); math.Abs(float64(got[c])-float64(want)) > tolerance {
						rt.Fatalf("%v: output %d, column %d is %v for weight %v, want %v±%v", f, o, c, got[c], w, want, tolerance)
					}
				}
			}
		}
	})
}

// expectedWeight is what a packed weight may be: for q8 half a step of its group off, for q4 at most the error of the coarsest
// candidate.
func expectedWeight(f Format, row []float32, column int) (want float32, tolerance float64) {
	switch f {
	case BF16:
		return fromBF16(toBF16(row[column])), 0
	case Q8:
		from := column / GroupColumns * GroupColumns
		largest := 0.0
		for _, w := range row[from:min(from+GroupColumns, len(row))] {
			largest = max(largest, math.Abs(float64(w)))
		}
		if largest/127 < 0x1p-126*(1+0x1p-9) {
			return row[column], largest // zeros, or around the limit
		}
		// half a step; the scale is rounded by up to 2^-9, which makes the largest code's value as far off
		return row[column], largest/127*0.501 + largest*0x1p-8
	case FP8:
		from := column / FP8GroupColumns * FP8GroupColumns
		largest := 0.0
		for _, w := range row[from:min(from+FP8GroupColumns, len(row))] {
			largest = max(largest, math.Abs(float64(w)))
		}
		if largest/448 < 0x1p-126*(1+0x1p-20) {
			return row[column], largest // zeros, or around the limit
		}
		// half a step of 3 bits of fraction, or of the smallest numbers
		return row[column], max(math.Abs(float64(row[column]))/16, largest/448*0x1p-10) * 1.001
	case MXFP4:
		from := column / MXFP4GroupColumns * MXFP4GroupColumns
		largest, group := 0.0, row[from:min(from+MXFP4GroupColumns, len(row))]
		for _, w := range group {
			largest = max(largest, math.Abs(float64(w)))
		}
		if largest < 0x1p-124 {
			return 0, 0
		}
		// The chosen scale has no larger sum of squares than the one with which the largest weight lies between 2 and 4 times the
		// scale: half a step, of at most 1/2 the largest. The largest scale of all may be half of that, which cuts to 6 of 8.
		return row[column], math.Sqrt(float64(len(group))/16+1.0/16) * largest
	case Q4:
		from := column / Q4GroupColumns * Q4GroupColumns
		largest, squares := 0.0, 0.0
		for _, w := range row[from:min(from+Q4GroupColumns, len(row))] {
			largest = max(largest, math.Abs(float64(w)))
		}
		if largest < q4SmallestLargest {
			return 0, 0
		}
		// The chosen scale has no larger sum of squares than the one of 1/8, whose errors are half a step, or a step where
		// code 8 is missing; and the scale is rounded by up to 2^-9.
		for _, w := range row[from:min(from+Q4GroupColumns, len(row))] {
			step := 0.501
			if math.Abs(float64(w)) > largest*0.93 {
				step = 1.04
			}
			squares += step * step
		}
		return row[column], math.Sqrt(squares) * largest / 8 * 1.01
	}
	return row[column], 0
}

func TestPackRefusesWhatItCannotHold(t *testing.T) {
	t.Parallel()
	for _, f := range Formats() {
		for name, bad := range map[string]float32{"NaN": float32(math.NaN()), "+Inf": float32(math.Inf(1)), "-Inf": float32(math.Inf(-1))} {
			m := Matrix{f, 40, 70, make([]byte, MatrixBytes(f, 40, 70))}
			err := Pack(m, func(o int, dst []float32) {
				clear(dst)
				if o == 35 {
					dst[66] = bad
				}
			})
			if !errors.Is(err, ErrWeight) || !strings.Contains(err.Error(), "output row 35, column 66 is "+name) {
				t.Errorf("%v with %s: %v", f, name, err)
			}
		}
		m := Matrix{f, 32, 64, make([]byte, 10)}
		if err := Pack(m, func(int, []float32) {}); err == nil || !strings.Contains(err.Error(), "10 bytes given") {
			t.Errorf("%v with a short buffer: %v", f, err)
		}
	}
	for _, f := range []Format{BF16, Q4} {
		large := Matrix{f, 1, 70, make([]byte, MatrixBytes(f, 1, 70))}
		err := Pack(large, func(_ int, dst []float32) {
			clear(dst)
			dst[67], dst[66] = math.MaxFloat32, 1
		})
		if !errors.Is(err, ErrWeight) || !strings.Contains(err.Error(), "row 0, column 67 is 3.4028235e+38, out of range for "+f.String()) {
			t.Errorf("%v with a float32 that becomes infinite: %v", f, err)
		}
	}
}

func TestExpertsAndParts(t *testing.T) {
	t.Parallel()
	for _, f := range Formats() {
		shape := ExpertShape{f, 192, 160}
		data := make([]byte, shape.Bytes())
		e := shape.Split(data)
		var sizes []int
		for i, m := range []Matrix{e.Gate, e.Up, e.Down} {
			sizes = append(sizes, len(m.Data))
			if len(m.Data) != MatrixBytes(m.Format, m.Outputs, m.Columns) || cap(m.Data) != len(m.Data) {
				t.Errorf("%v matrix %d: %d bytes, capacity %d", f, i, len(m.Data), cap(m.Data))
			}
			m.Data[0], m.Data[len(m.Data)-1] = byte(i+1), byte(i+1)
		}
		if diff := cmp.Diff([]int{e.Gate.Outputs, e.Gate.Columns, e.Up.Outputs, e.Up.Columns, e.Down.Outputs, e.Down.Columns}, []int{160, 192, 160, 192, 192, 160}); diff != "" {
			t.Error(diff)
		}
		if data[0] != 1 || data[sizes[0]-1] != 1 || data[sizes[0]] != 2 || data[sizes[0]+sizes[1]] != 3 || data[len(data)-1] != 3 {
			t.Errorf("%v: the matrices don't lie one after the other", f)
		}
	}
	rapid.Check(t, func(rt *rapid.T) {
		intermediate := rapid.IntRange(1, 3000).Draw(rt, "intermediate")
		f := rapid.SampledFrom(Formats()).Draw(rt, "format")
		parts := rapid.IntRange(1, MaxParts(f, intermediate)).Draw(rt, "parts")
		end, last := 0, math.MaxInt
		for p := range parts {
			from, to := PartRange(f, intermediate, parts, p)
			units := (to - from + f.PartUnit() - 1) / f.PartUnit()
			if from != end || to <= from || from%f.PartUnit() != 0 || units > last {
				rt.Fatalf("part %d of %d of %d: [%d, %d) after %d", p, parts, intermediate, from, to, end)
			}
			if to != intermediate && to%f.PartUnit() != 0 {
				rt.Fatalf("part %d ends at %d, inside a unit", p, to)
			}
			end, last = to, units
		}
		if end != intermediate {
			rt.Fatalf("%d parts of %d end at %d", parts, intermediate, end)
		}
	})
}
