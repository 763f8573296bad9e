package kernels

import (
	"encoding/binary"
	"math"
)

// widen is the float64 of a finite float32 that is given by its bits: the conversion instruction that Go uses on amd64 waits
// for its destination's last value, which costs half of the time of a product.
func widen(bits uint32) float64 {
	const bias = 0x1p896 // 1023-127: also right for denormals
	return math.Float64frombits(uint64(bits&0x80000000)<<32|uint64(bits&0x7fffffff)<<29) * bias
}

// multiplyFloatGeneric: per output and panel of PanelColumns columns one FMA per column, ascending; panels are added in
// ascending order.
func multiplyFloatGeneric(dst []float32, stride int, m Matrix, a *Activations, rows []int32, from, to int) {
	const tile = 8 // rows that share an unpacked column
	columnBytes := blockBytes(m.Format, 1)
	for output := from; output < to; output += BlockOutputs {
		block := m.block(output)
		count := min(BlockOutputs, to-output)
		for first := 0; first < len(rows); first += tile {
			tileRows := rows[first:min(first+tile, len(rows))]
			var totals [tile][BlockOutputs]float32
			for panel := 0; panel < m.Columns; panel += PanelColumns {
				var sums [tile][BlockOutputs]float64 // float32 values
				var w [BlockOutputs]float64
				for c := panel; c < min(panel+PanelColumns, m.Columns); c++ {
					unpackColumn(&w, block[c*columnBytes:(c+1)*columnBytes], m.Format)
					for i, row := range tileRows {
						addColumn(sums[i][:count], w[:count], a.Values[int(row)*a.Columns+c])
					}
				}
				for i := range tileRows {
					for o, sum := range sums[i] {
						totals[i][o] += float32(sum)
					}
				}
			}
			for i := range tileRows {
				copy(dst[(first+i)*stride+output:][:count], totals[i][:])
			}
		}
	}
}

// unpackColumn gives the weights of one column of a block.
func unpackColumn(w *[BlockOutputs]float64, column []byte, f Format) {
	if f == BF16 {
		for o := range w {
			w[o] = widen(uint32(binary.LittleEndian.Uint16(column[2*o:2*o+2])) << 16)
		}
		return
	}
	for o := range w {
		w[o] = widen(binary.LittleEndian.Uint32(column[4*o : 4*o+4]))
	}
}

// addColumn is sum = FMA(x, w, sum) for each output: what FMA does, on float32 values that are kept as float64.
func addColumn(sum, w []float64, x float32) {
	wide := float64(x)
	for o := range sum {
		s := wide*w[o] + sum[o]
		if b := math.Float64bits(s); doubtful(s) || b&(1<<63-1) >= (1023+127)<<52 { // the latter may overflow
			sum[o] = float64(FMA(x, float32(w[o]), float32(sum[o])))
		} else {
			sum[o] = math.Float64frombits((b + 1<<28) &^ (1<<29 - 1)) // to the nearest float32; it is no tie
		}
	}
}

// multiplyQ8Generic: per output and group the exact dot product of codes, then one FMA; groups in ascending order.
func multiplyQ8Generic(dst []float32, stride int, m Matrix, a *Activations, rows []int32, from, to int) {
	for output := from; output < to; output += BlockOutputs {
		block := m.block(output)
		for i, row := range rows {
			codes, scales := a.codes(int(row)), a.scales(int(row))
			var acc [BlockOutputs]float32
			for g := range scales {
				group := block[g*fullGroupBytes : min((g+1)*fullGroupBytes, len(block))]
				dots := dotGroup(group[scaleBytes:], codes[g*GroupColumns:min((g+1)*GroupColumns, len(codes))], codeOffset)
				for o, dot := range dots {
					scale := float32(scales[g] * fromBF16(binary.LittleEndian.Uint16(group[2*o:])))
					acc[o] = FMA(float32(dot), scale, acc[o])
				}
			}
			copy(dst[i*stride+output:i*stride+min(output+BlockOutputs, to)], acc[:])
		}
	}
}

// dotGroup gives the exact dot products of one group's activation codes with its 32 outputs, whose stored bytes are code+offset.
//
// Two outputs share one 64-bit multiplication: s = high·2^32 + low with signed 32-bit sums keeps both, because every step is
// linear and neither sum leaves the int32 range.
func dotGroup(quads []byte, codes []int8, offset int64) (dots [BlockOutputs]int32) {
	const everyFourth = 0x000000ff_000000ff
	var pairs [BlockOutputs / 2]int64
	var start int64 // -offset·Σx
	for _, x := range codes {
		start -= offset * int64(x)
	}
	for p := range pairs {
		pairs[p] = start<<32 + start
	}
	for len(codes) >= quadColumns && len(quads) >= quadBytes {
		x0, x1, x2, x3 := int64(codes[0]), int64(codes[1]), int64(codes[2]), int64(codes[3])
		quad := (*[quadBytes]byte)(quads)
		for p := range pairs {
			w := binary.LittleEndian.Uint64(quad[8*p:])
			pairs[p] += x0*int64(w&everyFourth) + x1*int64(w>>8&everyFourth) + x2*int64(w>>16&everyFourth) + x3*int64(w>>24&everyFourth)
		}
		codes, quads = codes[quadColumns:], quads[quadBytes:]
	}
	for p, s := range pairs {
		low := int32(s)
		dots[2*p], dots[2*p+1] = low, int32((s-int64(low))>>32)
	}
	return dots
}
