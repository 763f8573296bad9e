package main

import (
	"fmt"

	. "github.com/mmcloughlin/avo/build"
	. "github.com/mmcloughlin/avo/operand"
	. "github.com/mmcloughlin/avo/reg"
)

// scores: the dot products of q with keys in 16 lanes each (package contract), four keys at a time for the sake of latency.
func scores() {
	function("scoresAVX2", "func(dst, q, keys *float32, n, headDim int, scale float32)",
		"scoresAVX2 stores scale·(q·key) for n ≥ 1 keys [n, headDim].")
	dst, q, keys, n, headDim := pointer("dst"), pointer("q"), pointer("keys"), pointer("n"), pointer("headDim")
	stride, whole, tail, offset := GP64(), GP64(), GP64(), GP64()
	MOVQ(headDim, stride)
	SHLQ(Imm(2), stride)
	MOVQ(stride, whole)
	ANDQ(I32(-64), whole) // bytes in whole lanes
	MOVQ(headDim, tail)
	ANDQ(Imm(15), tail)
	masks := GP64()
	LEAQ(tailMasks(), masks)
	bytes := GP64()
	MOVQ(tail, bytes)
	SHLQ(Imm(2), bytes)
	SUBQ(bytes, masks)
	ADDQ(Imm(64), masks)

	// dots emits the 16 lanes of count keys whose pointers are given, and adds lanes 8 to 15 to 0 to 7.
	dots := func(label string, rows []Register) []VecVirtual {
		sums := make([][2]VecVirtual, len(rows))
		for r := range sums {
			for i := range sums[r] {
				sums[r][i] = YMM()
				VXORPS(sums[r][i], sums[r][i], sums[r][i])
			}
		}
		XORQ(offset, offset)
		Label(label)
		CMPQ(offset, whole)
		JE(LabelRef(label + "tail"))
		for i := range 2 {
			v := YMM()
			VMOVUPS(Mem{Base: q, Disp: 32 * i, Index: offset, Scale: 1}, v)
			for r := range rows {
				VFMADD231PS(Mem{Base: rows[r], Disp: 32 * i, Index: offset, Scale: 1}, v, sums[r][i])
			}
		}
		ADDQ(Imm(64), offset)
		JMP(LabelRef(label))
		Label(label + "tail")
		TESTQ(tail, tail)
		JZ(LabelRef(label + "sum"))
		for i := range 2 {
			mask, v := load(masks, 32*i), YMM()
			VMASKMOVPS(Mem{Base: q, Disp: 32 * i, Index: offset, Scale: 1}, mask, v)
			for r := range rows {
				key := YMM()
				VMASKMOVPS(Mem{Base: rows[r], Disp: 32 * i, Index: offset, Scale: 1}, mask, key)
				VFMADD231PS(key, v, sums[r][i])
			}
		}
		Label(label + "sum")
		result := make([]VecVirtual, len(rows))
		for r := range rows {
			VADDPS(sums[r][1], sums[r][0], sums[r][0])
			result[r] = sums[r][0]
		}
		return result
	}
	// half adds the upper four lanes to the lower four.
	half := func(v VecVirtual) VecVirtual {
		high := XMM()
		VEXTRACTF128(Imm(1), v, high)
		VADDPS(high, v.AsX(), high)
		return high
	}
	factor := Load(Param("scale"), XMM())
	VSHUFPS(Imm(0), factor, factor, factor)

	Label("four")
	CMPQ(n, Imm(4))
	JLT(LabelRef("rest"))
	rows := []Register{keys, GP64(), GP64(), GP64()}
	for r := 1; r < 4; r++ {
		LEAQ(Mem{Base: rows[r-1], Index: stride, Scale: 1}, rows[r])
	}
	var four [4]VecVirtual
	for r, v := range dots("fours", rows) {
		four[r] = half(v)
	}
	// Transposed, the sums of lanes j and j+2, then j and j+1, are vertical.
	var t [4]VecVirtual
	for i := range t {
		t[i] = XMM()
	}
	VUNPCKLPS(four[1], four[0], t[0]) // 0: a0 b0 a1 b1
	VUNPCKHPS(four[1], four[0], t[1]) // 1: a2 b2 a3 b3
	VUNPCKLPS(four[3], four[2], t[2])
	VUNPCKHPS(four[3], four[2], t[3])
	VADDPS(t[1], t[0], t[0]) // a0+a2 b0+b2 a1+a3 b1+b3
	VADDPS(t[3], t[2], t[2])
	even, odd := XMM(), XMM()
	VMOVLHPS(t[2], t[0], even)
	VMOVHLPS(t[0], t[2], odd)
	VADDPS(odd, even, even)
	VMULPS(factor, even, even)
	VMOVUPS(even, Mem{Base: dst})
	ADDQ(Imm(16), dst)
	LEAQ(Mem{Base: rows[3], Index: stride, Scale: 1}, keys)
	SUBQ(Imm(4), n)
	JMP(LabelRef("four"))

	Label("rest")
	TESTQ(n, n)
	JZ(LabelRef("end"))
	Label("key")
	sum := half(dots("one", []Register{keys})[0])
	swapped := XMM()
	VPERMILPS(Imm(0x4e), sum, swapped)
	VADDPS(swapped, sum, sum)
	VPERMILPS(Imm(0xb1), sum, swapped)
	VADDPS(swapped, sum, sum)
	VMULSS(factor, sum, sum)
	VMOVSS(sum, Mem{Base: dst})
	ADDQ(Imm(4), dst)
	ADDQ(stride, keys)
	DECQ(n)
	JNZ(LabelRef("key"))
	Label("end")
	finish()
}

// weightedSum: out = FMA(p, value, out) for each row of values; as many elements at a time as registers hold.
func weightedSum() {
	function("weightedSumAVX2", "func(out, p, values *float32, n, dims, stride int)",
		"weightedSumAVX2 adds the sum of p·value over n ≥ 1 rows of values, stride bytes apart, to out [dims]; dims is a positive",
		"multiple of 8.")
	out, p, values, n, dims, stride := pointer("out"), pointer("p"), pointer("values"), pointer("n"), pointer("dims"), pointer("stride")
	row, index := GP64(), GP64()
	for _, vectors := range []int{8, 4, 1} {
		label := fmt.Sprintf("vectors%d", vectors)
		Label(label)
		CMPQ(dims, Imm(uint64(8*vectors)))
		JLT(LabelRef(label + "end"))
		sums := make([]VecVirtual, vectors)
		for v := range sums {
			sums[v] = load(out, 32*v)
		}
		MOVQ(values, row)
		XORQ(index, index)
		Label(label + "row")
		weight := YMM()
		VBROADCASTSS(Mem{Base: p, Index: index, Scale: 4}, weight)
		for v := range sums {
			VFMADD231PS(Mem{Base: row, Disp: 32 * v}, weight, sums[v])
		}
		ADDQ(stride, row)
		INCQ(index)
		CMPQ(index, n)
		JNE(LabelRef(label + "row"))
		for v := range sums {
			VMOVUPS(sums[v], Mem{Base: out, Disp: 32 * v})
		}
		ADDQ(U32(uint32(32*vectors)), out)
		ADDQ(U32(uint32(32*vectors)), values)
		SUBQ(Imm(uint64(8*vectors)), dims)
		JMP(LabelRef(label))
		Label(label + "end")
	}
	finish()
}
