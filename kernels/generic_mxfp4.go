package kernels

import (
	"encoding/binary"
	"math"
)

// mxfp4 (OCP Microscaling Formats 1.0): codes in e2m1 (sign, 2 bits of exponent, 1 of fraction) and a scale 2^(e-127), e8m0, for each
// group of 32. Twice the value of a code is a small integer, so that products are exact; the factor of a group is then half its scale.

const (
	mxfp4ScaleBytes = 2 * BlockOutputs
	mxfp4GroupBytes = mxfp4ScaleBytes + groupQuads/2*quadBytes
	mxfp4HalfQuads  = MXFP4GroupColumns / quadColumns
	mxfp4Offset     = 12  // products take twice the value + mxfp4Offset, which is not negative
	mxfp4One        = 127 // the scale 1
	mxfp4NaN        = 255
)

// mxfp4Doubled is twice the value of a code without its sign.
var mxfp4Doubled = [8]int8{0, 1, 2, 3, 4, 6, 8, 12}

// mxfp4Bytes is twice the value of a code, plus mxfp4Offset.
var mxfp4Bytes = func() (bytes [16]byte) {
	for code, w := range mxfp4Doubled {
		bytes[code], bytes[code|8] = byte(mxfp4Offset+w), byte(mxfp4Offset-w)
	}
	return bytes
}()

// mxfp4Groups is the number of scales of an output in mxfp4.
func mxfp4Groups(columns int) int { return (columns + MXFP4GroupColumns - 1) / MXFP4GroupColumns }

// mxfp4Factor is half the scale of an e8m0 byte other than mxfp4NaN, 2^(e-128), exactly: for e of 0 and 1 it is a denormal number.
func mxfp4Factor(e byte) float32 {
	return math.Float32frombits(max(uint32(e)<<23, 1<<22)) * 0.5 // 2^-127 has the bits 1<<22
}

// mxfp4Value is the value of a code and a scale; the sign of a zero is kept, and it may be infinite.
func mxfp4Value(code, e byte) float32 {
	v := float32(mxfp4Doubled[code&7]) * mxfp4Factor(e)
	if code&8 != 0 {
		v = -v
	}
	return v
}

// storeMXFP4 stores one output's codes (one a byte, padded to whole pairs of quads) and scales into its block.
func storeMXFP4(block []byte, lane int, codes, scales []byte) {
	for g := 0; g < len(scales); g += 2 {
		group := block[g/2*mxfp4GroupBytes:]
		group[lane], group[BlockOutputs+lane] = scales[g], mxfp4One
		if g+1 < len(scales) {
			group[BlockOutputs+lane] = scales[g+1]
		}
		target := group[mxfp4ScaleBytes+lane*quadColumns:]
		for pair := 0; pair < groupQuads/2 && len(codes) > 0; pair++ {
			low, high := binary.LittleEndian.Uint32(codes), binary.LittleEndian.Uint32(codes[quadColumns:])
			binary.LittleEndian.PutUint32(target[pair*quadBytes:], low|high<<4)
			codes = codes[2*quadColumns:]
		}
	}
}

// loadMXFP4 is the weight of a column of one output of a block.
func loadMXFP4(block []byte, lane, column int) float32 {
	group := block[column/GroupColumns*mxfp4GroupBytes:]
	half, quad := column%GroupColumns/MXFP4GroupColumns, column%GroupColumns/quadColumns
	code := group[mxfp4ScaleBytes+quad/2*quadBytes+lane*quadColumns+column%quadColumns] >> (quad % 2 * 4) & 0xf
	return mxfp4Value(code, group[half*BlockOutputs+lane])
}

// multiplyMXFP4Generic: per output and group of 32 columns the exact dot product of the activations' codes with twice the values
// of the weights' codes, then one FMA with the product of the activations' scale and half the weights' scale; groups in ascending
// order.
func multiplyMXFP4Generic(dst []float32, stride int, m Matrix, a *Activations, rows []int32, from, to int) {
	const tile = 8 // rows that share unpacked codes
	for output := from; output < to; output += BlockOutputs {
		block := m.block(output)
		for first := 0; first < len(rows); first += tile {
			tileRows := rows[first:min(first+tile, len(rows))]
			var acc [tile][BlockOutputs]float32
			for g := range mxfp4Groups(m.Columns) {
				var quads [mxfp4HalfQuads * quadBytes]byte
				var factors [BlockOutputs]float32
				unpackMXFP4(&quads, &factors, block, g)
				for i, row := range tileRows {
					codes, scale := a.codes(int(row)), a.scales(int(row))[g/2]
					dots := dotGroup(quads[:], codes[g*MXFP4GroupColumns:min((g+1)*MXFP4GroupColumns, len(codes))], mxfp4Offset)
					for o, dot := range dots {
						acc[i][o] = FMA(float32(dot), float32(scale*factors[o]), acc[i][o])
					}
				}
			}
			for i := range tileRows {
				copy(dst[(first+i)*stride+output:][:min(BlockOutputs, to-output)], acc[i][:])
			}
		}
	}
}

// unpackMXFP4 gives the bytes of one group of 32 columns of a block in the order of q8's quads, and its factors.
func unpackMXFP4(quads *[mxfp4HalfQuads * quadBytes]byte, factors *[BlockOutputs]float32, block []byte, g int) {
	group := block[g/2*mxfp4GroupBytes:]
	for o, e := range group[g%2*BlockOutputs:][:BlockOutputs] {
		factors[o] = mxfp4Factor(e)
	}
	pairs := group[mxfp4ScaleBytes:]
	pairs = pairs[min(g%2*mxfp4HalfQuads/2*quadBytes, len(pairs)):]
	for pair := 0; pair < mxfp4HalfQuads/2 && len(pairs) > 0; pair++ {
		low, high := quads[2*pair*quadBytes:][:quadBytes], quads[(2*pair+1)*quadBytes:][:quadBytes]
		for i, b := range pairs[:quadBytes] {
			low[i], high[i] = mxfp4Bytes[b&0xf], mxfp4Bytes[b>>4]
		}
		pairs = pairs[quadBytes:]
	}
}
