package main

import (
	"fmt"

	. "github.com/mmcloughlin/avo/build"
	. "github.com/mmcloughlin/avo/operand"
	. "github.com/mmcloughlin/avo/reg"
)

// kvFormat is how the product of attention reads the 32 outputs of one column. i counts columns within an unrolled loop.
type kvFormat struct {
	name        string
	columnBytes int
	load        func(m Mem, high VecVirtual) [vectors]VecVirtual
}

var kvFormats = []kvFormat{
	{"F32", 4 * blockOutputs, f32.load},
	// Outputs 0 to 15 are the lower halves of words, 16 to 31 the upper ones.
	{"BF16", 2 * blockOutputs, bf16.load},
	{"Int8", blockOutputs, func(m Mem, _ VecVirtual) (w [vectors]VecVirtual) {
		for v := range w {
			w[v] = ZMM()
			VPMOVSXBD(m.Offset(16*v), w[v])
			VCVTDQ2PS(w[v], w[v])
		}
		return w
	}},
}

// kvProduct emits the product of rows with the tiles of a KV block: rows x 32 sums stay in registers.
func kvProduct(f kvFormat, rows int) {
	name := fmt.Sprintf("kvProduct%sRows%dAVX512", f.name, rows)
	function(name, "func(dst *float32, stride int, x **float32, columns, tiles int, weights *byte, skip, ahead int)",
		name+fmt.Sprintf(" stores the products of rows (%d), whose pointers are x, with tiles ≥ 1 of 32 outputs each: one FMA for", rows),
		"each of columns ≥ 1. Rows of dst are stride bytes apart; skip bytes lie between the columns of one tile and the next. The lines that",
		"are ahead bytes behind those read are prefetched.")
	dst, weights, tiles, ahead := pointer("dst"), pointer("weights"), pointer("tiles"), pointer("ahead")
	x := rowPointers("x", rows)
	offset := pointer("columns")
	SHLQ(Imm(2), offset)
	for r := range x {
		ADDQ(offset, x[r])
	}
	high := ZMM()
	if f.name == "BF16" {
		bits := GP32()
		MOVL(U32(0xffff0000), bits)
		VPBROADCASTD(bits, high)
	}
	sums := make([][vectors]VecVirtual, rows)
	for r := range sums {
		sums[r] = [vectors]VecVirtual{ZMM(), ZMM()}
	}
	column := func(i int) {
		w := f.load(Mem{Base: weights, Disp: i * f.columnBytes}, high)
		for r := range sums {
			value := ZMM()
			VBROADCASTSS(Mem{Base: x[r], Index: offset, Scale: 1, Disp: 4 * i}, value)
			for v := range w {
				VFMADD231PS(w[v], value, sums[r][v])
			}
		}
	}
	advance := func(n int) {
		ADDQ(U32(uint32(n*f.columnBytes)), weights)
		ADDQ(Imm(uint64(4*n)), offset)
	}

	Label("tile")
	Load(Param("columns"), offset)
	SHLQ(Imm(2), offset)
	NEGQ(offset)
	for r := range sums {
		for _, sum := range sums[r] {
			zero(sum)
		}
	}
	Label("four")
	CMPQ(offset, I32(-16))
	JG(LabelRef("rest"))
	for i := range 4 {
		column(i)
		for line := 0; line < f.columnBytes; line += 64 {
			if i*f.columnBytes%64 == 0 {
				PREFETCHT0(Mem{Base: weights, Index: ahead, Scale: 1, Disp: i*f.columnBytes + line})
			}
		}
	}
	advance(4)
	JMP(LabelRef("four"))
	Label("rest")
	TESTQ(offset, offset)
	JZ(LabelRef("store"))
	Label("one")
	column(0)
	advance(1)
	JNZ(LabelRef("one"))

	Label("store")
	target := offset
	MOVQ(dst, target)
	for r := range sums {
		for v, sum := range sums[r] {
			VMOVUPS(sum, Mem{Base: target, Disp: 64 * v})
		}
		if r < rows-1 {
			ADDQ(parameter("stride"), target)
		}
	}
	ADDQ(parameter("skip"), weights)
	ADDQ(U32(4*blockOutputs), dst)
	DECQ(tiles)
	JNZ(LabelRef("tile"))
	finish()
}

// parameter is a parameter in memory.
func parameter(name string) Mem {
	b, err := Param(name).Resolve()
	if err != nil {
		panic(err)
	}
	return b.Addr
}

// kvSoftmax: the four vectors of a row's 64 scores stay in registers.
func kvSoftmax() {
	function("kvSoftmaxAVX512", "func(p *float32, masks *uint64, most, sum *float32, rows int, scale float32, keyScales, valueScales *float32)",
		"kvSoftmaxAVX512 makes weights of rows ≥ 1 of 64 products each: score = p·scale, the largest, Exp(score - largest) and its sum in 16",
		"lanes, of the keys whose bits are set (others give 0). If keyScales and valueScales are not nil, products are multiplied by the",
		"former first, and weights by the latter last.")
	p, masks, most, sum, rows := pointer("p"), pointer("masks"), pointer("most"), pointer("sum"), pointer("rows")
	scale, keyScales, valueScales := broadcast("scale"), pointer("keyScales"), pointer("valueScales")
	infinity, zeros := everywhere(bitsConstant("minusInfinity", 0xff800000)), ZMM()
	zero(zeros)
	seen := []Physical{K1, K2, K3, K4}
	var scores [4]VecVirtual

	Label("row")
	bits := GP64()
	MOVQ(Mem{Base: masks}, bits)
	for i, mask := range seen {
		KMOVW(bits.As32(), mask)
		if i < len(seen)-1 {
			SHRQ(Imm(16), bits)
		}
	}
	for i := range scores {
		scores[i] = ZMM()
		VMOVUPS(Mem{Base: p, Disp: 64 * i}, scores[i])
	}
	TESTQ(keyScales, keyScales)
	JZ(LabelRef("scale"))
	for i := range scores {
		VMULPS(Mem{Base: keyScales, Disp: 64 * i}, scores[i], scores[i])
	}
	Label("scale")
	largest := ZMM()
	VMOVAPS(infinity, largest)
	for i := range scores {
		VMULPS(scale, scores[i], scores[i])
		VMAXPS(largest, scores[i], seen[i], largest) // largest, if the score is a NaN
	}
	half, quarter, swapped := YMM(), XMM(), XMM()
	VEXTRACTF64X4(Imm(1), largest, half)
	VMAXPS(half, largest.AsY(), half)
	VEXTRACTF32X4(Imm(1), half, quarter)
	VMAXPS(quarter, half.AsX(), quarter)
	VPERMILPS(Imm(0x4e), quarter, swapped)
	VMAXPS(swapped, quarter, quarter)
	VPERMILPS(Imm(0xb1), quarter, swapped)
	VMAXPS(swapped, quarter, quarter)
	VADDPS(zeros.AsX(), quarter, quarter) // no -0
	VMOVSS(quarter, Mem{Base: most})
	VBROADCASTSS(quarter, largest)
	for i := range scores {
		VSUBPS(largest, scores[i], scores[i])
		e := exp(scores[i])
		VMOVAPS_Z(e, seen[i], scores[i])
	}
	total := ZMM()
	VADDPS(scores[1], scores[0], total)
	VADDPS(scores[2], total, total)
	VADDPS(scores[3], total, total)
	VEXTRACTF64X4(Imm(1), total, half)
	VADDPS(half, total.AsY(), half)
	VEXTRACTF32X4(Imm(1), half, quarter)
	VADDPS(quarter, half.AsX(), quarter)
	VPERMILPS(Imm(0x4e), quarter, swapped)
	VADDPS(swapped, quarter, quarter)
	VPERMILPS(Imm(0xb1), quarter, swapped)
	VADDPS(swapped, quarter, quarter)
	VMOVSS(quarter, Mem{Base: sum})
	TESTQ(valueScales, valueScales)
	JZ(LabelRef("store"))
	for i := range scores {
		VMULPS(Mem{Base: valueScales, Disp: 64 * i}, scores[i], scores[i])
	}
	Label("store")
	for i := range scores {
		VMOVUPS(scores[i], Mem{Base: p, Disp: 64 * i})
	}
	advance(4, most, sum)
	advance(8, masks)
	ADDQ(U32(256), p)
	DECQ(rows)
	JNZ(LabelRef("row"))
	finish()
}
