package kernels

import (
	"encoding/binary"
	"fmt"
	"math"
)

const (
	// mxfp4SmallestLargest is 2^-124: a group whose largest magnitude is below is zeros. Above, every exponent that is tried is in range.
	mxfp4SmallestLargest = 3 << 23
	// mxfp4LargestExponent is that of the largest scale that is chosen: no value is then infinite.
	mxfp4LargestExponent = 252
)

// mxfp4Tries are the distances from the exponent of the MX specification (floor(log2(maxabs)) - 2) that are tried, in this order. No
// other exponent can have a smaller error: with one more the largest weight lies where the coarser grid is a part of the finer one,
// and with two less it is cut by more than what finer steps of all others can gain.
var mxfp4Tries = [3]int32{0, 1, -1}

// quantizeWeightsMXFP4Generic gives the codes (one a byte, padded with zeros) and scales of one output's finite weights: of each group's
// exponents (mxfp4Tries) the one with the smallest sum of squared errors, the first of equals. Weights are rounded to the nearest
// value, ties to the even code, cut at 6 times the scale (as the MX specification says). The scale of zeros is 1.
//
// The error is summed in units of the specification's scale, so that nothing overflows: 8 lanes, lane j takes the columns ≡ j mod 8
// in ascending order, lanes are added by halves.
func quantizeWeightsMXFP4Generic(codes, scales []byte, weights []float32) {
	clear(codes[len(weights):])
	for g := range scales {
		from := g * MXFP4GroupColumns
		to := min(from+MXFP4GroupColumns, len(weights))
		var group [MXFP4GroupColumns]float32
		copy(group[:], weights[from:to])
		scales[g] = mxfp4Quantize(codes[from:to], &group)
	}
}

// mxfp4Quantize gives the codes of a group and its scale.
func mxfp4Quantize(codes []byte, group *[MXFP4GroupColumns]float32) byte {
	var largest uint32 // bits of an absolute value
	for _, w := range group {
		largest = max(largest, math.Float32bits(w)&0x7fffffff)
	}
	if largest < mxfp4SmallestLargest {
		clear(codes)
		return mxfp4One
	}
	exponent := int32(largest>>23) - 2
	inverse := math.Float32frombits(uint32(254-exponent) << 23)
	for i := range group {
		group[i] *= inverse
	}
	best, smallest := int32(0), float32(math.Inf(1))
	for _, try := range mxfp4Tries {
		if exponent+try > mxfp4LargestExponent {
			continue
		}
		up, down := mxfp4PowerOfTwo(try), mxfp4PowerOfTwo(-try)
		var lanes [8]float32
		for c, w := range group {
			size := float32(math.Abs(float64(w)))
			difference := size - float32(float32(mxfp4Doubled[mxfp4Code(size*down)])*0.5*up)
			lanes[c%8] += float32(difference * difference)
		}
		for half := 4; half > 0; half /= 2 {
			for j := range half {
				lanes[j] += lanes[j+half]
			}
		}
		if lanes[0] < smallest {
			smallest, best = lanes[0], try
		}
	}
	down := mxfp4PowerOfTwo(-best)
	for i := range codes {
		bits := math.Float32bits(group[i])
		codes[i] = byte(bits>>31)<<3 | mxfp4Code(math.Float32frombits(bits&0x7fffffff)*down)
	}
	return byte(exponent + best)
}

func mxfp4PowerOfTwo(n int32) float32 { return math.Float32frombits(uint32(127+n) << 23) }

// mxfp4Code is the code, without a sign, of the value that is nearest to a magnitude: of two the one with the even code.
func mxfp4Code(size float32) byte {
	switch {
	case size < 1.75:
		switch {
		case size <= 0.25:
			return 0
		case size < 0.75:
			return 1
		case size <= 1.25:
			return 2
		}
		return 3
	case size <= 2.5:
		return 4
	case size < 3.5:
		return 5
	case size <= 5:
		return 6
	}
	return 7
}

// PackStoredMXFP4 fills an mxfp4 matrix from codes and scales as a checkpoint stores them: row(o, blocks, scales) stores, for each group
// of MXFP4GroupColumns columns of output o, 16 bytes of which each holds the codes of two columns, the first in its lower four bits,
// and one e8m0 byte; what lies behind the last column is not looked at. Rows are asked for once each, in ascending order. A scale
// that is NaN, or one with which a weight is no finite float32 (above 2^125), is an ErrWeight that names the output; m.Data is then
// undefined.
func PackStoredMXFP4(m Matrix, row func(output int, blocks, scales []byte)) error {
	if want := MatrixBytes(MXFP4, m.Outputs, m.Columns); m.Format != MXFP4 || len(m.Data) != want {
		return fmt.Errorf("pack stored codes into a %v matrix [%d, %d]: %d bytes given, mxfp4 and %d needed", m.Format, m.Outputs, m.Columns, len(m.Data), want)
	}
	groups := mxfp4Groups(m.Columns)
	blocks, scales := make([]byte, groups*MXFP4GroupColumns/2), make([]byte, groups)
	codes := make([]byte, groups*MXFP4GroupColumns)
	for o := range m.Outputs {
		row(o, blocks, scales)
		for i, b := range blocks {
			binary.LittleEndian.PutUint16(codes[2*i:], uint16(b&0xf)|uint16(b>>4)<<8)
		}
		clear(codes[m.Columns:])
		for g, e := range scales {
			column := g * MXFP4GroupColumns
			if e == mxfp4NaN {
				return fmt.Errorf("%w: output row %d, the scale of column %d is NaN", ErrWeight, o, column)
			}
			if e <= mxfp4LargestExponent {
				continue
			}
			for c, code := range codes[column : column+MXFP4GroupColumns] {
				if math.IsInf(float64(mxfp4Value(code, e)), 0) {
					return fmt.Errorf("%w: output row %d, column %d is %g times 2^%d, out of range for float32", ErrWeight, o, column+c,
						mxfp4Value(code, mxfp4One), int(e)-mxfp4One)
				}
			}
		}
		storeMXFP4(m.block(o), o%BlockOutputs, codes[:fourBitColumns(m.Columns)], scales)
	}
	clear(codes)
	for g := range scales {
		scales[g] = mxfp4One
	}
	for o := m.Outputs; o%BlockOutputs != 0; o++ {
		storeMXFP4(m.block(o), o%BlockOutputs, codes[:fourBitColumns(m.Columns)], scales)
	}
	return nil
}
