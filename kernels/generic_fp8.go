package kernels

import (
	"encoding/binary"
	"fmt"
	"math"
)

// fp8: e4m3 bytes (sign, 4 bits of exponent with bias 7, 3 of fraction; 0x7f and 0xff are NaNs and never packed).

const e4m3Largest = 448

// e4m3Values are the values of the bytes as float64, exactly.
var e4m3Values = func() (values [256]float64) {
	for b := range values {
		// At the place of a float32's exponent and fraction they are 2^120 too small.
		values[b] = widen(uint32(b&0x80)<<24|uint32(b&0x7f)<<20) * 0x1p120
	}
	return values
}()

// toE4M3 rounds a value of at most 448 to the nearest e4m3, half to even.
func toE4M3(x float32) byte {
	b := math.Float32bits(x)
	sign, size := byte(b>>24)&0x80, b&0x7fffffff
	if size < (127-6)<<23 { // below 2^-6 e4m3 is a multiple of 2^-9
		return sign | byte(int32(roundEven(math.Float32frombits(size)*0x1p9)))
	}
	return sign | byte((size+0x7ffff+size>>20&1)>>20-(127-7)<<3)
}

// quantizeWeightsFP8 gives bytes and scales of one output's finite weights.
func quantizeWeightsFP8(codes []byte, scales []float32, weights []float32) {
	for g := range scales {
		from := g * FP8GroupColumns
		to := min(from+FP8GroupColumns, len(weights))
		var largest float32
		for _, w := range weights[from:to] {
			largest = max(largest, float32(math.Abs(float64(w))))
		}
		scales[g] = largest / e4m3Largest
		if scales[g] < smallestNormal {
			scales[g] = 0
			clear(codes[from:to])
			continue
		}
		for c := from; c < to; c++ {
			codes[c] = toE4M3(weights[c] / scales[g])
		}
	}
}

// storeFP8 stores one output's bytes and scales into its block, and the zero behind an odd number of columns.
func storeFP8(block []byte, lane int, codes []byte, scales []float32) {
	for g, scale := range scales {
		group := block[g*fp8GroupBytes:]
		binary.LittleEndian.PutUint32(group[4*lane:], math.Float32bits(scale))
		from := g * FP8GroupColumns
		for c, code := range codes[from:min(from+FP8GroupColumns, len(codes))] {
			group[fp8ScaleBytes+c*BlockOutputs+lane] = code
		}
	}
	if len(codes)%2 != 0 {
		block[len(block)-BlockOutputs+lane] = 0
	}
}

// loadFP8 is the weight of a column of one output of a block.
func loadFP8(block []byte, lane, column int) float32 {
	group := block[column/FP8GroupColumns*fp8GroupBytes:]
	code := group[fp8ScaleBytes+column%FP8GroupColumns*BlockOutputs+lane]
	return float32(e4m3Values[code]) * math.Float32frombits(binary.LittleEndian.Uint32(group[4*lane:]))
}

// PackStored fills an fp8 matrix from bytes and scales as a checkpoint stores them: row(o, codes, scales) stores the Columns e4m3
// bytes of output o and the scales of its groups of FP8GroupColumns columns. Rows are asked for once each, in ascending order. A
// NaN, or a scale that is not finite, is an ErrWeight that names the output; m.Data is then undefined.
func PackStored(m Matrix, row func(output int, codes []byte, scales []float32)) error {
	if want := MatrixBytes(FP8, m.Outputs, m.Columns); m.Format != FP8 || len(m.Data) != want {
		return fmt.Errorf("pack stored bytes into a %v matrix [%d, %d]: %d bytes given, fp8 and %d needed", m.Format, m.Outputs, m.Columns, len(m.Data), want)
	}
	codes, scales := make([]byte, m.Columns), make([]float32, fp8Groups(m.Columns))
	for o := range m.Outputs {
		row(o, codes, scales)
		for c, code := range codes {
			if code&0x7f == 0x7f {
				return fmt.Errorf("%w: output row %d, column %d is NaN", ErrWeight, o, c)
			}
		}
		if g := firstNotFinite(scales); g >= 0 {
			return fmt.Errorf("%w: output row %d, the scale of column %d is %v", ErrWeight, o, g*FP8GroupColumns, scales[g])
		}
		storeFP8(m.block(o), o%BlockOutputs, codes, scales)
	}
	clear(codes)
	clear(scales)
	for o := m.Outputs; o%BlockOutputs != 0; o++ {
		storeFP8(m.block(o), o%BlockOutputs, codes, scales)
	}
	return nil
}

// multiplyFP8Generic: per output and group of 128 columns one FMA per column, ascending, from zero; then one FMA with the scale.
func multiplyFP8Generic(dst []float32, stride int, m Matrix, a *Activations, rows []int32, from, to int) {
	for output := from; output < to; output += BlockOutputs {
		block := m.block(output)
		count := min(BlockOutputs, to-output)
		for i, row := range rows {
			x := a.values(int(row))
			var totals [BlockOutputs]float32
			for g := range fp8Groups(m.Columns) {
				group := block[g*fp8GroupBytes:]
				var sums, w [BlockOutputs]float64 // float32 values
				first := g * FP8GroupColumns
				for c, v := range x[first:min(first+FP8GroupColumns, m.Columns)] {
					for o, code := range group[fp8ScaleBytes+c*BlockOutputs:][:BlockOutputs] {
						w[o] = e4m3Values[code]
					}
					addColumn(sums[:count], w[:count], v)
				}
				for o := range count {
					scale := math.Float32frombits(binary.LittleEndian.Uint32(group[4*o:]))
					totals[o] = FMA(float32(sums[o]), scale, totals[o])
				}
			}
			copy(dst[i*stride+output:][:count], totals[:])
		}
	}
}
