package kernels

import (
	"encoding/binary"
	"math"
)

// q4: codes from -8 to 7 in groups of 32 columns, each with a bfloat16 scale of either sign.

// q4Candidates is the number of scales that are tried for a group.
const q4Candidates = 20

// q4Reciprocals are -1/n for n = 6.5, 6.6875, ... 10.0625: candidate scales are the weight of largest magnitude times these.
// That weight so gets the code -8 (for n above 8.5 it is cut to it), which the other sign does not have. n = 8 is the rule of
// llama.cpp's Q4_0. They are float32 values; the assembly has the same.
var q4Reciprocals = func() (r [q4Candidates]float32) {
	for k := range r {
		r[k] = float32(-1 / (6.5 + 0.1875*float64(k)))
	}
	return r
}()

// q4SmallestLargest: a group whose largest magnitude is below is zeros. Above, every candidate is a normal number.
const q4SmallestLargest = 0x1p-122

// fourBitColumns is the number of codes of an output, with the padding to whole pairs of quads.
func fourBitColumns(columns int) int { return (columns + 7) &^ 7 }

// quantizeWeightsQ4Generic gives the codes (+8, one a byte, padded with zero weights) and bfloat16 scales of one output's
// finite weights: of each group's candidates (q4Reciprocals) the one with the smallest sum of squared errors, the first of
// equals. Codes are round-half-even(w · (1/scale)), cut to [-8, 7].
//
// The error of a candidate is summed in units of its scale, so that nothing overflows: 8 lanes, lane j takes the columns
// ≡ j mod 8 in ascending order, lanes are added by halves; the sum is multiplied twice with scale/largest.
func quantizeWeightsQ4Generic(codes []byte, scales []uint16, weights []float32) {
	for i := range codes[len(weights):] {
		codes[len(weights)+i] = q4Offset
	}
	for g := range scales {
		from := g * Q4GroupColumns
		to := min(from+Q4GroupColumns, len(weights))
		var group [Q4GroupColumns]float32
		copy(group[:], weights[from:to])
		scale := q4Scale(&group)
		scales[g] = toBF16(scale)
		inverse := float32(0)
		if scale != 0 {
			inverse = 1 / scale
		}
		for c := from; c < to; c++ {
			codes[c] = byte(int32(q4Code(float32(weights[c]*inverse))) + q4Offset)
		}
	}
}

// q4Scale is the scale of a group, a bfloat16 value; 0 for a group of zeros.
func q4Scale(group *[Q4GroupColumns]float32) float32 {
	var highest, lowest float32
	for _, w := range group {
		highest, lowest = max(highest, w), min(lowest, w)
	}
	largest := highest
	if -lowest > highest {
		largest = lowest
	}
	if float32(math.Abs(float64(largest))) < q4SmallestLargest {
		return 0
	}
	var best float32
	smallest := float32(math.Inf(1))
	for _, reciprocal := range q4Reciprocals {
		scale := fromBF16(toBF16(float32(largest * reciprocal)))
		inverse, share := 1/scale, scale/largest
		var lanes [8]float32
		for c, w := range group {
			quotient := float32(w * inverse)
			difference := quotient - q4Code(quotient)
			lanes[c%8] += float32(difference * difference)
		}
		for half := 4; half > 0; half /= 2 {
			for j := range half {
				lanes[j] += lanes[j+half]
			}
		}
		if cost := float32(float32(lanes[0]*share) * share); cost < smallest {
			smallest, best = cost, scale
		}
	}
	return best
}

// q4Code rounds a quotient to a code.
func q4Code(quotient float32) float32 {
	return min(max(roundEven(quotient), q4SmallestCode), q4LargestCode)
}

// storeQ4 stores one output's codes and scales into its block.
func storeQ4(block []byte, lane int, codes []byte, scales []uint16) {
	for g, scale := range scales {
		group := block[g*q4GroupBytes:]
		binary.LittleEndian.PutUint16(group[2*lane:], scale)
		target := group[scaleBytes+lane*quadColumns:]
		for pair := 0; pair < q4GroupQuads/2 && len(codes) > 0; pair++ {
			low, high := binary.LittleEndian.Uint32(codes), binary.LittleEndian.Uint32(codes[quadColumns:])
			binary.LittleEndian.PutUint32(target[pair*quadBytes:], low|high<<4)
			codes = codes[2*quadColumns:]
		}
	}
}

// loadQ4 is the weight of a column of one output of a block.
func loadQ4(block []byte, lane, column int) float32 {
	group := block[column/Q4GroupColumns*q4GroupBytes:]
	quad := column % Q4GroupColumns / quadColumns
	code := group[scaleBytes+quad/2*quadBytes+lane*quadColumns+column%quadColumns] >> (quad % 2 * 4) & 0xf
	return float32(int32(code)-q4Offset) * fromBF16(binary.LittleEndian.Uint16(group[2*lane:]))
}

// multiplyQ4Generic: per output and group of 32 columns the exact dot product of codes, then one FMA; groups in ascending
// order.
func multiplyQ4Generic(dst []float32, stride int, m Matrix, a *Activations, rows []int32, from, to int) {
	for output := from; output < to; output += BlockOutputs {
		block := m.block(output)
		for i, row := range rows {
			codes, scales := a.codes(int(row)), a.scales(int(row))
			var acc [BlockOutputs]float32
			for g := range q4Groups(m.Columns) {
				group := block[g*q4GroupBytes : min((g+1)*q4GroupBytes, len(block))]
				dots := dotGroupQ4(group[scaleBytes:], codes[g*Q4GroupColumns:min((g+1)*Q4GroupColumns, len(codes))])
				for o, dot := range dots {
					scale := float32(scales[g*Q4GroupColumns/GroupColumns] * fromBF16(binary.LittleEndian.Uint16(group[2*o:])))
					acc[o] = FMA(float32(dot), scale, acc[o])
				}
			}
			copy(dst[i*stride+output:i*stride+min(output+BlockOutputs, to)], acc[:])
		}
	}
}

// dotGroupQ4 gives the exact dot products of one group's activation codes, at most 32, with its 32 outputs; two outputs share
// one multiplication, as in dotGroup.
func dotGroupQ4(pairs []byte, codes []int8) (dots [BlockOutputs]int32) {
	const everyEighth = 0x0000000f_0000000f
	var sums [BlockOutputs / 2]int64
	var offset int64 // stored weights are code+8: the sums start at -8·Σx
	for _, x := range codes {
		offset -= q4Offset * int64(x)
	}
	for s := range sums {
		sums[s] = offset<<32 + offset
	}
	for quad := 0; len(codes) >= quadColumns; quad++ {
		x0, x1, x2, x3 := int64(codes[0]), int64(codes[1]), int64(codes[2]), int64(codes[3])
		pair := (*[quadBytes]byte)(pairs[quad/2*quadBytes:])
		shift := quad % 2 * 4
		for s := range sums {
			w := binary.LittleEndian.Uint64(pair[8*s:]) >> shift
			sums[s] += x0*int64(w&everyEighth) + x1*int64(w>>8&everyEighth) + x2*int64(w>>16&everyEighth) + x3*int64(w>>24&everyEighth)
		}
		codes = codes[quadColumns:]
	}
	for i, s := range sums {
		low := int32(s)
		dots[2*i], dots[2*i+1] = low, int32((s-int64(low))>>32)
	}
	return dots
}
