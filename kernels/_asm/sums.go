package main

import (
	. "github.com/mmcloughlin/avo/build"
	. "github.com/mmcloughlin/avo/operand"
	. "github.com/mmcloughlin/avo/reg"
)

// narrowSums: an element fits if element + 2^31 has no bit above the lower 32.
func narrowSums() {
	function("narrowSumsAVX2", "func(dst *byte, sum *int64, n int) bool",
		"narrowSumsAVX2 stores the lower 32 bits of each element; false if one is not their sign extension. n is a positive multiple of 8.")
	dst, sum, n := pointer("dst"), pointer("sum"), pointer("n")
	bias, over := loadYMM(repeat64("twoTo31", 1<<31)), YMM()
	VPXOR(over, over, over)
	loop("eight", n, 8, func() {
		a, b, narrow := load(sum, 0), load(sum, 32), YMM()
		VSHUFPS(Imm(0x88), b, a, narrow) // in each half two of a, two of b
		VPERMQ(Imm(0xd8), narrow, narrow)
		VMOVDQU(narrow, Mem{Base: dst})
		for _, v := range []VecVirtual{a, b} {
			VPADDQ(bias, v, v)
			VPOR(v, over, over)
		}
		advance(64, sum)
		advance(32, dst)
	})
	VPSRLQ(Imm(32), over, over)
	VPTEST(over, over)
	fits := GP8()
	SETEQ(fits)
	VZEROUPPER()
	Store(fits, ReturnIndex(0))
	RET()
}

func addSums() {
	function("addSumsAVX2", "func(sum, part *int64, n int)",
		"addSumsAVX2 adds n elements of part to those of sum; n is a positive multiple of 8.")
	sum, part, n := pointer("sum"), pointer("part"), pointer("n")
	loop("eight", n, 8, func() {
		for half := range 2 {
			v := load(sum, 32*half)
			VPADDQ(Mem{Base: part, Disp: 32 * half}, v, v)
			VMOVDQU(v, Mem{Base: sum, Disp: 32 * half})
		}
		advance(64, sum)
		advance(64, part)
	})
	finish()
}

func widenSums() {
	function("widenSumsAVX2", "func(sum *int64, src *byte, n int)",
		"widenSumsAVX2 stores n int32 as int64; n is a positive multiple of 8.")
	sum, src, n := pointer("sum"), pointer("src"), pointer("n")
	loop("eight", n, 8, func() {
		for half := range 2 {
			v := YMM()
			VPMOVSXDQ(Mem{Base: src, Disp: 16 * half}, v)
			VMOVDQU(v, Mem{Base: sum, Disp: 32 * half})
		}
		advance(64, sum)
		advance(32, src)
	})
	finish()
}
