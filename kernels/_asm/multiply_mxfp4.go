package main

import (
	. "github.com/mmcloughlin/avo/build"
	. "github.com/mmcloughlin/avo/operand"
	. "github.com/mmcloughlin/avo/reg"
)

// mxfp4: a table gives twice the value of a code plus 12, at most 24, so that the sums stay within an int16 as those of q4 do: 16
// products of at most 12·127 (24384).
var mxfp4 = fourBits{"mxfp4", 2, []string{"apart, groups groups of 64 columns of which the last one has lastQuads quads."}, twelveBytes, mxfp4Bytes, mxfp4Factors}

func twelveBytes() Mem { return repeat32("twelveBytes", 0x0c0c0c0c) }

// mxfp4Bytes are those of the reference, twice.
func mxfp4Bytes() Mem {
	return constant("mxfp4Bytes", func() {
		for i := range 32 {
			w := []int{0, 1, 2, 3, 4, 6, 8, 12}[i%8]
			if i%16 >= 8 {
				w = -w
			}
			DATA(i, U8(uint8(12+w)))
		}
	})
}

// mxfp4Factors gives half of 8 e8m0 scales as the reference does: 2^(e-127), for e = 0 a denormal number, times 0.5.
func mxfp4Factors(m Mem, half, v int) VecVirtual {
	s := YMM()
	VPMOVZXBD(m.Offset(blockOutputs*half+8*v), s)
	VPSLLD(Imm(23), s, s)
	VPMAXSD(repeat32("smallestE8M0", 1<<22), s, s)
	VMULPS(repeatFloat("half", 0.5), s, s)
	return s
}
