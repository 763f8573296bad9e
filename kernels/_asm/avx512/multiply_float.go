package main

import (
	"fmt"

	. "github.com/mmcloughlin/avo/build"
	. "github.com/mmcloughlin/avo/operand"
	. "github.com/mmcloughlin/avo/reg"
)

const (
	panelColumns  = 256
	floatTileRows = 8
	fp8ScaleBytes = 4 * blockOutputs
)

// floatFormat is how a float kernel reads the 32 weights of a column, and in which order its two vectors then hold the outputs.
type floatFormat struct {
	name         string
	columnBytes  int
	load         func(m Mem, high VecVirtual) [vectors]VecVirtual
	interleaved  bool // even outputs in the first vector, odd ones in the second
	panelColumns int
	scaled       bool // a panel begins with 32 float32 scales
}

var f32 = floatFormat{"f32", 4 * blockOutputs, func(m Mem, _ VecVirtual) (w [vectors]VecVirtual) {
	for v := range w {
		w[v] = ZMM()
		VMOVUPS(m.Offset(64*v), w[v])
	}
	return w
}, false, panelColumns, false}

// A load of 32 bfloat16 numbers gives the even ones as float32 by a shift, the odd ones by a mask.
var bf16 = floatFormat{"bf16", 2 * blockOutputs, func(m Mem, high VecVirtual) [vectors]VecVirtual {
	even, odd := ZMM(), ZMM()
	VMOVDQU16(m, odd)
	VPSLLD(Imm(16), odd, even)
	VPANDD(high, odd, odd)
	return [vectors]VecVirtual{even, odd}
}, true, panelColumns, false}

// fp8 weights are e4m3 bytes: moved to where a bfloat16 has sign, exponent and fraction, they are 2^120 too small (denormal ones too).
var fp8 = floatFormat{"fp8", blockOutputs, func(m Mem, high VecVirtual) [vectors]VecVirtual {
	even, odd := ZMM(), ZMM()
	VPMOVSXBW(m, odd)
	VPSLLW(Imm(4), odd, odd)
	VPANDD_BCST(word("e4m3Mask", 0x87f087f0), odd, odd)
	VPSLLD(Imm(16), odd, even)
	VPANDD(high, odd, odd)
	for _, w := range []VecVirtual{even, odd} {
		VMULPS_BCST(word("e4m3Unbias", (127+120)<<23), w, w)
	}
	return [vectors]VecVirtual{even, odd}
}, true, 128, true}

var words = map[string]Mem{}

// word is a 4-byte constant.
func word(name string, bits uint32) Mem {
	m, ok := words[name]
	if !ok {
		m = GLOBL(name+"AVX512", 8|16) // RODATA|NOPTR
		DATA(0, U32(bits))
		words[name] = m
	}
	return m
}

// float emits the kernel of a format for a number of rows: rows x 32 sums stay in registers for a panel.
func float(f floatFormat, rows int) {
	name := fmt.Sprintf("%sRows%dAVX512", f.name, rows)
	function(name, "func(acc *float32, stride int, load, store uint32, weights *byte, x **float32, column, columns int)",
		name+fmt.Sprintf(" adds the products of rows (%d) with one block of packed weights to acc (up to 32 outputs per row, rows", rows),
		"stride bytes apart), panel by panel. Bits of load say which sums are read from acc (the others start at",
		"zero), bits of store which are written. x are the rows' pointers, of which columns are read from the one at column on.")
	outputMasks()
	acc, stride, weights := pointer("acc"), pointer("stride"), pointer("weights")
	x := rowPointers("x", rows)
	offset, columns, count := pointer("column"), pointer("columns"), GP64()

	high := ZMM()
	if f.interleaved {
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
			VBROADCASTSS(Mem{Base: x[r], Index: offset, Scale: 4, Disp: 4 * i}, value)
			for v := range w {
				VFMADD231PS(w[v], value, sums[r][v])
			}
		}
		prefetch(weights, i*f.columnBytes+prefetchAhead, f.columnBytes)
	}
	advance := func(n int) {
		ADDQ(U32(uint32(n*f.columnBytes)), weights)
		ADDQ(Imm(uint64(n)), offset)
	}

	Label("panel")
	MOVQ(U32(uint32(f.panelColumns)), count)
	CMPQ(columns, count)
	CMOVQLT(columns, count)
	SUBQ(count, columns)
	var scales Register
	if f.scaled {
		scales = GP64()
		MOVQ(weights, scales)
		ADDQ(U32(fp8ScaleBytes), weights)
	}
	for r := range sums {
		for _, sum := range sums[r] {
			zero(sum)
		}
	}
	Label("four")
	CMPQ(count, Imm(4))
	JLT(LabelRef("rest"))
	for i := range 4 {
		column(i)
	}
	advance(4)
	SUBQ(Imm(4), count)
	JMP(LabelRef("four"))
	Label("rest")
	TESTQ(count, count)
	JZ(LabelRef("add"))
	Label("one")
	column(0)
	advance(1)
	DECQ(count)
	JNZ(LabelRef("one"))

	Label("add")
	var order [vectors]VecVirtual
	if f.interleaved {
		for v := range order {
			order[v] = ZMM()
			VMOVDQU32(interleave(v), order[v])
		}
	}
	target := GP64()
	MOVQ(acc, target)
	for r := range sums {
		added := sums[r]
		if f.interleaved {
			for v := range added {
				added[v] = order[v]
				if r < rows-1 {
					added[v] = ZMM()
					VMOVDQA32(order[v], added[v])
				}
				VPERMI2PS(sums[r][1], sums[r][0], added[v])
			}
		}
		for v := range added {
			total, m := ZMM(), Mem{Base: target, Disp: 64 * v}
			VMOVUPS_Z(m, loadMasks[v], total)
			if f.scaled {
				VFMADD231PS(Mem{Base: scales, Disp: 64 * v}, added[v], total)
			} else {
				VADDPS(added[v], total, total)
			}
			VMOVUPS(total, storeMasks[v], m)
		}
		if r < rows-1 {
			ADDQ(stride, target)
		}
	}
	for v := range vectors { // the next panel adds to these
		KMOVW(storeMasks[v], loadMasks[v])
	}
	TESTQ(columns, columns)
	JNZ(LabelRef("panel"))
	finish()
}

var interleaves [vectors]Mem

// interleave is the order of VPERMI2PS that puts elements 0 and 16, 1 and 17, ... side by side: the first or second 16 of them.
func interleave(v int) Mem {
	if interleaves[v].Base == nil {
		interleaves[v] = GLOBL(fmt.Sprintf("interleave%dAVX512", v), 8|16) // RODATA|NOPTR
		for i := range 16 {
			DATA(4*i, U32(uint32(i%2*16+i/2+8*v)))
		}
	}
	return interleaves[v]
}
