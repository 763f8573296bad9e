package kernels

import (
	"encoding/binary"
	"math"
)

func multiplyF32Generic(dst []float32, stride int, m Matrix, a *Activations, rows []int32, from, to int) {
	multiplyFloatGeneric(dst, stride, m, a, rows, from, to, func(w *[BlockOutputs]float32, column []byte) {
		for o := range w {
			w[o] = math.Float32frombits(binary.LittleEndian.Uint32(column[4*o : 4*o+4]))
		}
	})
}

func multiplyBF16Generic(dst []float32, stride int, m Matrix, a *Activations, rows []int32, from, to int) {
	multiplyFloatGeneric(dst, stride, m, a, rows, from, to, func(w *[BlockOutputs]float32, column []byte) {
		for o := range w {
			w[o] = fromBF16(binary.LittleEndian.Uint16(column[2*o : 2*o+2]))
		}
	})
}

// multiplyFloatGeneric: per output and panel of PanelColumns columns one FMA per column, ascending; panels are added in
// ascending order. load unpacks one column of a block.
func multiplyFloatGeneric(dst []float32, stride int, m Matrix, a *Activations, rows []int32, from, to int,
	load func(w *[BlockOutputs]float32, column []byte),
) {
	columnBytes := blockBytes(m.Format, 1)
	for output := from; output < to; output += BlockOutputs {
		block := m.block(output)
		count := min(BlockOutputs, to-output)
		for i, row := range rows {
			x := a.values(int(row))
			total := dst[i*stride+output:][:count]
			clear(total)
			for panel := 0; panel < m.Columns; panel += PanelColumns {
				var sum, w [BlockOutputs]float32
				for c := panel; c < min(panel+PanelColumns, m.Columns); c++ {
					load(&w, block[c*columnBytes:(c+1)*columnBytes])
					xc := float64(x[c])
					for o, v := range w[:count] { // sum = FMA(x, w, sum), written out: calls would take most of the time
						if s := xc*float64(v) + float64(sum[o]); !doubtful(s) {
							sum[o] = float32(s)
						} else {
							sum[o] = fmaByOdd(x[c], v, sum[o])
						}
					}
				}
				for o := range total {
					total[o] += sum[o]
				}
			}
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
				dots := dotGroup(group[scaleBytes:], codes[g*GroupColumns:min((g+1)*GroupColumns, len(codes))])
				for o, dot := range dots {
					scale := float32(scales[g] * fromBF16(binary.LittleEndian.Uint16(group[2*o:])))
					acc[o] = FMA(float32(dot), scale, acc[o])
				}
			}
			copy(dst[i*stride+output:i*stride+min(output+BlockOutputs, to)], acc[:])
		}
	}
}

// dotGroup gives the exact dot products of one group's activation codes with its 32 outputs.
//
// Two outputs share one 64-bit multiplication: s = high·2^32 + low with signed 32-bit sums keeps both, because every step is
// linear and neither sum leaves the int32 range.
func dotGroup(quads []byte, codes []int8) (dots [BlockOutputs]int32) {
	const everyFourth = 0x000000ff_000000ff
	var pairs [BlockOutputs / 2]int64
	var offset int64 // stored weights are code+128: the sums start at -128·Σx
	for _, x := range codes {
		offset -= codeOffset * int64(x)
	}
	for p := range pairs {
		pairs[p] = offset<<32 + offset
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
