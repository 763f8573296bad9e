package checkpoint

import (
	"encoding/binary"
	"fmt"
	"math"
	"testing"

	"pgregory.net/rapid"

	_ "github.com/moepool/moepool/internal/propertyseed"
)

// halfValue computes a half-precision number from its definition.
func halfValue(half uint16) float32 {
	sign := 1 - 2*float64(half>>15)
	exponent, fraction := int(half>>10&31), float64(half&0x3ff)
	switch exponent {
	case 0:
		return float32(math.Copysign(math.Ldexp(fraction, -24), sign))
	case 31:
		if fraction == 0 {
			return float32(math.Inf(int(sign)))
		}
		return float32(math.NaN())
	}
	return float32(sign * math.Ldexp(1024+fraction, exponent-25))
}

func TestAllHalves(t *testing.T) {
	t.Parallel()
	data := make([]byte, 2<<16)
	for i := range 1 << 16 {
		binary.LittleEndian.PutUint16(data[2*i:], uint16(i))
	}
	f16, bf16 := make([]float32, 1<<16), make([]float32, 1<<16)
	convert(F16, f16, data)
	convert(BF16, bf16, data)
	for i := range 1 << 16 {
		want := halfValue(uint16(i))
		if got := f16[i]; math.Float32bits(got) != math.Float32bits(want) && !(got != got && want != want) {
			t.Fatalf("F16 %#04x gives %v, expected %v", i, got, want)
		}
		if got := math.Float32bits(bf16[i]); got != uint32(i)<<16 {
			t.Fatalf("BF16 %#04x gives %#08x", i, got)
		}
	}
}

// Any part of any row equals the same elements read one by one, at any alignment of the data.
func TestRowRange(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		dtype := rapid.SampledFrom([]DType{BF16, F16, F32}).Draw(t, "dtype")
		rows, columns := rapid.IntRange(1, 5).Draw(t, "rows"), rapid.IntRange(1, 40).Draw(t, "columns")
		from := rapid.IntRange(0, columns).Draw(t, "from")
		n := rapid.IntRange(0, columns-from).Draw(t, "n")
		row := rapid.IntRange(0, rows-1).Draw(t, "row")
		shift := rapid.IntRange(0, 7).Draw(t, "shift")
		size := dtype.size()
		data := rapid.SliceOfN(rapid.Byte(), shift+rows*columns*size, shift+rows*columns*size).Draw(t, "data")[shift:]
		tensor := Tensor{Name: "t", DType: dtype, Shape: []int{rows, columns}, Data: data}
		got := make([]float32, n)
		tensor.RowRange(row, from, got)
		all, whole := tensor.Float32(), make([]float32, columns)
		tensor.Row(row, whole)
		for i := range got {
			element := data[(row*columns+from+i)*size:]
			var want uint32
			switch dtype {
			case BF16:
				want = uint32(binary.LittleEndian.Uint16(element)) << 16
			case F16:
				want = math.Float32bits(halfValue(binary.LittleEndian.Uint16(element)))
			case F32:
				want = binary.LittleEndian.Uint32(element)
			}
			for _, x := range []float32{got[i], all[row*columns+from+i], whole[from+i]} {
				nan := math.IsNaN(float64(math.Float32frombits(want)))
				if math.Float32bits(x) != want && !(nan && x != x) {
					t.Fatalf("element %d: %#08x, expected %#08x", i, math.Float32bits(x), want)
				}
			}
		}
	})
}

func TestRowsOfOtherRanks(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		shape         []int
		rows, columns int
	}{{nil, 1, 1}, {[]int{6}, 1, 6}, {[]int{2, 3}, 2, 3}, {[]int{2, 3, 4}, 2, 12}, {[]int{0, 3}, 0, 3}} {
		tensor := Tensor{DType: F32, Shape: c.shape}
		if tensor.Rows() != c.rows || tensor.Columns() != c.columns {
			t.Errorf("%v: %d rows of %d", c.shape, tensor.Rows(), tensor.Columns())
		}
	}
}

func BenchmarkRow(b *testing.B) {
	for _, dtype := range []DType{BF16, F16, F32} {
		for _, columns := range []int{768, 2048, 14336} {
			b.Run(fmt.Sprintf("dtype=%s/columns=%d", dtype, columns), func(b *testing.B) {
				tensor := Tensor{DType: dtype, Shape: []int{4, columns}, Data: make([]byte, 4*columns*dtype.size())}
				for i := range tensor.Data {
					tensor.Data[i] = byte(i*7 + i>>8)
				}
				dst := make([]float32, columns)
				b.SetBytes(int64(columns * dtype.size()))
				for i := 0; b.Loop(); i++ {
					tensor.Row(i&3, dst)
				}
			})
		}
	}
}
