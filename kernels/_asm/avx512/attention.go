package main

import (
	"fmt"

	. "github.com/mmcloughlin/avo/build"
	. "github.com/mmcloughlin/avo/operand"
	. "github.com/mmcloughlin/avo/reg"
)

// scores: the dot products of q with keys in 16 lanes each (package contract), eight keys at a time for the sake of latency.
func scores() {
	function("scoresAVX512", "func(dst, q, keys *float32, n, headDim int, scale float32)",
		"scoresAVX512 stores scale·(q·key) for n ≥ 1 keys [n, headDim].")
	dst, q, keys, n, headDim := pointer("dst"), pointer("q"), pointer("keys"), pointer("n"), pointer("headDim")
	whole, tail := GP64(), GP64()
	MOVQ(headDim, tail)
	ANDQ(Imm(15), tail)
	firstLanes(tail, K1)
	MOVQ(headDim, whole)
	SHLQ(Imm(2), whole)
	ANDQ(I32(-64), whole) // bytes in whole lanes
	stride := headDim
	SHLQ(Imm(2), stride)
	offset := tail // its value is in the mask, and in flags where it counts
	// dots emits the 16 lanes of the keys whose pointers are given, and adds lanes 8 to 15 to 0 to 7, then 4 to 7 to 0 to 3.
	dots := func(label string, rows []Register) []VecVirtual {
		sums := make([]VecVirtual, len(rows))
		for r := range sums {
			sums[r] = ZMM()
			zero(sums[r])
		}
		XORQ(offset, offset)
		Label(label)
		CMPQ(offset, whole)
		JE(LabelRef(label + "tail"))
		v := ZMM()
		VMOVUPS(Mem{Base: q, Index: offset, Scale: 1}, v)
		for r := range rows {
			VFMADD231PS(Mem{Base: rows[r], Index: offset, Scale: 1}, v, sums[r])
		}
		ADDQ(Imm(64), offset)
		JMP(LabelRef(label))
		Label(label + "tail")
		KTESTW(K1, K1)
		JZ(LabelRef(label + "sum"))
		VMOVUPS_Z(Mem{Base: q, Index: offset, Scale: 1}, K1, v)
		for r := range rows {
			key := ZMM()
			VMOVUPS_Z(Mem{Base: rows[r], Index: offset, Scale: 1}, K1, key)
			VFMADD231PS(key, v, sums[r])
		}
		Label(label + "sum")
		result := make([]VecVirtual, len(rows))
		for r := range rows {
			half, quarter := YMM(), XMM()
			VEXTRACTF64X4(Imm(1), sums[r], half)
			VADDPS(half, sums[r].AsY(), half)
			VEXTRACTF32X4(Imm(1), half, quarter)
			VADDPS(quarter, half.AsX(), quarter)
			result[r] = quarter
		}
		return result
	}
	factor := Load(Param("scale"), XMM())
	VSHUFPS(Imm(0), factor, factor, factor)

	Label("eight")
	CMPQ(n, Imm(8))
	JLT(LabelRef("rest"))
	rows := []Register{keys}
	for r := 1; r < 8; r++ {
		rows = append(rows, GP64())
		LEAQ(Mem{Base: rows[r-1], Index: stride, Scale: 1}, rows[r])
	}
	quarters := dots("eights", rows)
	for i := range 2 {
		// Transposed, the sums of lanes j and j+2, then j and j+1, are vertical.
		four := quarters[4*i : 4*i+4]
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
		VMOVUPS(even, Mem{Base: dst, Disp: 16 * i})
	}
	ADDQ(Imm(32), dst)
	LEAQ(Mem{Base: rows[7], Index: stride, Scale: 1}, keys)
	SUBQ(Imm(8), n)
	JMP(LabelRef("eight"))

	Label("rest")
	TESTQ(n, n)
	JZ(LabelRef("end"))
	Label("key")
	sum := dots("one", []Register{keys})[0]
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
	function("weightedSumAVX512", "func(out, p, values *float32, n, dims, stride int)",
		"weightedSumAVX512 adds the sum of p·value over n ≥ 1 rows of values, stride bytes apart, to out [dims], dims ≥ 1.")
	out, p, values, n, dims, stride := pointer("out"), pointer("p"), pointer("values"), pointer("n"), pointer("dims"), pointer("stride")
	row, index, bits := GP64(), GP64(), GP32()
	MOVL(U32(0xffff), bits)
	KMOVW(bits, K1)
	for _, vectors := range []int{8, 4, 1} {
		label := fmt.Sprintf("vectors%d", vectors)
		Label(label)
		if vectors > 1 {
			CMPQ(dims, Imm(uint64(16*vectors)))
			JLT(LabelRef(label + "end"))
		} else {
			TESTQ(dims, dims)
			JLE(LabelRef(label + "end"))
			CMPQ(dims, Imm(16))
			JGE(LabelRef(label + "whole"))
			firstLanes(dims, K1)
			Label(label + "whole")
		}
		sums := make([]VecVirtual, vectors)
		for v := range sums {
			sums[v] = ZMM()
			VMOVUPS_Z(Mem{Base: out, Disp: 64 * v}, K1, sums[v])
		}
		MOVQ(values, row)
		XORQ(index, index)
		Label(label + "row")
		weight := ZMM()
		VBROADCASTSS(Mem{Base: p, Index: index, Scale: 4}, weight)
		for v := range sums {
			if vectors > 1 {
				VFMADD231PS(Mem{Base: row, Disp: 64 * v}, weight, sums[v])
			} else {
				value := ZMM()
				VMOVUPS_Z(Mem{Base: row}, K1, value)
				VFMADD231PS(value, weight, sums[v])
			}
		}
		ADDQ(stride, row)
		INCQ(index)
		CMPQ(index, n)
		JNE(LabelRef(label + "row"))
		for v := range sums {
			VMOVUPS(sums[v], K1, Mem{Base: out, Disp: 64 * v})
		}
		ADDQ(U32(uint32(64*vectors)), out)
		ADDQ(U32(uint32(64*vectors)), values)
		SUBQ(Imm(uint64(16*vectors)), dims)
		JMP(LabelRef(label))
		Label(label + "end")
	}
	finish()
}
