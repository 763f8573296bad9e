package checkpoint

import (
	"fmt"
	"math"
	"slices"
)

// fp8Block is the number of rows, and of columns, that share a scale: matrices in FP8 as DeepSeek and Qwen publish them have, beside
// the tensor NAME of e4m3 bytes, NAME_scale_inv [⌈rows/128⌉, ⌈columns/128⌉]. A weight is the e4m3 value times its block's scale.
const fp8Block = 128

// e4m3Values are the float32 values of the 256 codes: sign, 4 bits of exponent with bias 7, 3 of fraction; no infinities, 0x7f and
// 0xff are NaNs.
var e4m3Values = func() (values [256]float32) {
	for code := range values {
		exponent, fraction := code>>3&15, float32(code&7)
		var v float32
		switch {
		case code&0x7f == 0x7f:
			v = float32(math.NaN())
		case exponent == 0:
			v = fraction * 0x1p-9
		default:
			v = (8 + fraction) * math.Float32frombits(uint32(127+exponent-10)<<23)
		}
		if code >= 128 {
			v = -v
		}
		values[code] = v
	}
	return values
}()

// readQuantization tells whether the weights are in FP8 with block scales. Other ways of quantisation are refused.
func readQuantization(k *keys) (blockFP8 bool) {
	value, present := k.raw("quantization_config")
	if !present {
		return false
	}
	method := "of an unnamed method"
	if inner := k.object("quantization_config"); inner != nil {
		inner.defaults = map[string]any{"quant_method": method, "fmt": "e4m3"}
		method = inner.text("quant_method")
		if method == "fp8" && inner.text("fmt") == "e4m3" && slices.Equal(inner.integers("weight_block_size"), []int{fp8Block, fp8Block}) && inner.err == nil {
			return true
		}
	}
	k.fail("quantization_config", "the weights are quantised (%s: %s); only BF16, F16, F32 and FP8 (e4m3 with blocks of 128 x 128) checkpoints are read",
		method, shorten(value))
	return false
}

// blockScales finds the scales of an F8E4M3 matrix and checks their shape.
func (c *Checkpoint) blockScales(t *Tensor) (*Tensor, error) {
	if len(t.Shape) != 2 {
		return nil, &TensorError{File: t.File, Tensor: t.Name, Expected: "a matrix, as it is stored in FP8", Found: fmt.Sprintf("shape %v", t.Shape)}
	}
	name := t.Name + "_scale_inv"
	f := c.byName[name]
	if f == nil {
		return nil, &TensorError{File: t.File, Tensor: t.Name, Expected: "its scales in a tensor " + name, Found: lookAlike(name, c.Names())}
	}
	scales, err := f.Tensor(name)
	if err != nil {
		return nil, err
	}
	want := []int{blocks(t.Shape[0]), blocks(t.Shape[1])}
	if !slices.Equal(scales.Shape, want) {
		return nil, &TensorError{File: f.path, Tensor: name, Expected: fmt.Sprintf("shape %v for a matrix %v", want, t.Shape), Found: fmt.Sprint(scales.Shape)}
	}
	if !scales.DType.Readable() {
		return nil, &TensorError{File: f.path, Tensor: name, Expected: "BF16, F16 or F32", Found: string(scales.DType)}
	}
	return &scales, nil
}

func blocks(n int) int { return (n + fp8Block - 1) / fp8Block }

// blockFP8Range stores the columns [from, from+len(dst)) of row i: each value times its scale, rounded once.
func (t Tensor) blockFP8Range(i, from int, dst []float32) {
	codes := t.Data[i*t.Shape[1]+from:][:len(dst)]
	for c := 0; c < len(dst); {
		column := from + c
		end := min(len(dst), c+fp8Block-column%fp8Block)
		var scale [1]float32
		t.scales.RowRange(i/fp8Block, column/fp8Block, scale[:])
		for ; c < end; c++ {
			dst[c] = e4m3Values[codes[c]] * scale[0]
		}
	}
}

// BlockFP8 tells whether the tensor is a matrix of e4m3 bytes with block scales, which StoredFP8 reads.
func (t Tensor) BlockFP8() bool { return t.scales != nil }

// StoredFP8 stores the e4m3 bytes of the columns [from, from+len(codes)) of row i as they are, and the scales of their groups of 128
// columns; from is a multiple of 128. It panics like Row.
func (t Tensor) StoredFP8(i, from int, codes []byte, scales []float32) {
	if !t.BlockFP8() || i < 0 || i >= t.Rows() || from < 0 || from%fp8Block != 0 || from+len(codes) > t.Columns() || len(scales) != blocks(len(codes)) {
		panic(fmt.Sprintf("checkpoint: %d bytes and %d scales from column %d of row %d of %s, %s %v", len(codes), len(scales), from, i, t.Name, t.DType, t.Shape))
	}
	copy(codes, t.Data[i*t.Shape[1]+from:])
	t.scales.RowRange(i/fp8Block, from/fp8Block, scales)
}
