package main

import (
	. "github.com/mmcloughlin/avo/build"
	. "github.com/mmcloughlin/avo/operand"
	. "github.com/mmcloughlin/avo/reg"
)

func squareLanes() {
	function("squareLanesAVX2", "func(lane *[16]float32, x *float32, n int)",
		"squareLanesAVX2 adds x² to the sums in 16 lanes; n is a positive multiple of 16.")
	lane, x, n := pointer("lane"), pointer("x"), pointer("n")
	var sums [2]VecVirtual
	for i := range sums {
		sums[i] = load(lane, 32*i)
	}
	loop("sixteen", n, 16, func() {
		for i := range sums {
			v := load(x, 32*i)
			VFMADD231PS(v, v, sums[i])
		}
		advance(64, x)
	})
	for i := range sums {
		VMOVUPS(sums[i], Mem{Base: lane, Disp: 32 * i})
	}
	finish()
}

func normalize() {
	function("normalizeAVX2", "func(dst, x, weight *float32, n int, factor float32)",
		"normalizeAVX2 stores (x·factor)·weight; n is a positive multiple of 8.")
	dst, x, weight, n, factor := pointer("dst"), pointer("x"), pointer("weight"), pointer("n"), broadcast("factor")
	loop("eight", n, 8, func() {
		v := YMM()
		VMULPS(Mem{Base: x}, factor, v)
		VMULPS(Mem{Base: weight}, v, v)
		VMOVUPS(v, Mem{Base: dst})
		advance(32, dst, x, weight)
	})
	finish()
}

func rotate() {
	function("rotateAVX2", "func(first, second, cos, sin *float32, n int)",
		"rotateAVX2 rotates n pairs (first, second); n is a positive multiple of 8.")
	first, second, cos, sin, n := pointer("first"), pointer("second"), pointer("cos"), pointer("sin"), pointer("n")
	loop("eight", n, 8, func() {
		a, b, c, s := load(first, 0), load(second, 0), load(cos, 0), load(sin, 0)
		ac, bs, bc, as := YMM(), YMM(), YMM(), YMM()
		VMULPS(c, a, ac)
		VMULPS(s, b, bs)
		VSUBPS(bs, ac, ac)
		VMULPS(c, b, bc)
		VMULPS(s, a, as)
		VADDPS(as, bc, bc)
		VMOVUPS(ac, Mem{Base: first})
		VMOVUPS(bc, Mem{Base: second})
		advance(32, first, second, cos, sin)
	})
	finish()
}

// elementwise emits the functions that do one or two operations on each element.
func elementwise() {
	function("divideAVX2", "func(x *float32, n int, divisor float32)", "divideAVX2 is x/divisor in place; n is a positive multiple of 8.")
	x, n := pointer("x"), pointer("n")
	divisor := broadcast("divisor")
	loop("eight", n, 8, func() {
		v := load(x, 0)
		VDIVPS(divisor, v, v)
		VMOVUPS(v, Mem{Base: x})
		advance(32, x)
	})
	finish()

	function("addAVX2", "func(x, y *float32, n int)", "addAVX2 is x+y in x; n is a positive multiple of 8.")
	x, n = pointer("x"), pointer("n")
	y := pointer("y")
	loop("eight", n, 8, func() {
		v := load(x, 0)
		VADDPS(Mem{Base: y}, v, v)
		VMOVUPS(v, Mem{Base: x})
		advance(32, x, y)
	})
	finish()

	function("addScaledAVX2", "func(x, y *float32, n int, factor float32)",
		"addScaledAVX2 is x + y·factor in x, two roundings; n is a positive multiple of 8.")
	x, y, n = pointer("x"), pointer("y"), pointer("n")
	factor := broadcast("factor")
	loop("eight", n, 8, func() {
		v := YMM()
		VMULPS(Mem{Base: y}, factor, v)
		VADDPS(Mem{Base: x}, v, v)
		VMOVUPS(v, Mem{Base: x})
		advance(32, x, y)
	})
	finish()

	function("mergeAVX2", "func(x, y *float32, n int, a, b float32)",
		"mergeAVX2 is FMA(y, b, x·a) in x; n is a positive multiple of 8.")
	x, y, n = pointer("x"), pointer("y"), pointer("n")
	a, b := broadcast("a"), broadcast("b")
	loop("eight", n, 8, func() {
		v := YMM()
		VMULPS(Mem{Base: x}, a, v)
		VFMADD231PS(Mem{Base: y}, b, v)
		VMOVUPS(v, Mem{Base: x})
		advance(32, x, y)
	})
	finish()
}

// accumulate: adding 1.5·2^52 to a float64 below 2^51 leaves the nearest integer, ties to even, in its low bits.
func accumulate() {
	const magic = 0x4338000000000000
	function("accumulateAVX2", "func(sum *int64, y *float32, n int, weight float64) int",
		"accumulateAVX2 adds round-half-even(weight·y) to sum, four at a time; n is a positive multiple of 4. It stops before four of",
		"which one reaches 2^51 or is a NaN, and gives the number done.")
	sum, y, n := pointer("sum"), pointer("y"), pointer("n")
	w := YMM()
	VBROADCASTSD(parameter("weight"), w)
	done, flags := GP64(), GP32()
	XORQ(done, done)
	Label("four")
	v, size := YMM(), YMM()
	VCVTPS2PD(Mem{Base: y, Index: done, Scale: 4}, v)
	VMULPD(w, v, v)
	VANDPD(repeat64("absMaskDouble", 0x7fffffffffffffff), v, size)
	VCMPPD(notLessThan, repeat64("twoTo51", 0x4320000000000000), size, size)
	VMOVMSKPD(size, flags)
	TESTL(flags, flags)
	JNZ(LabelRef("end"))
	VADDPD(repeat64("roundMagicDouble", magic), v, v)
	VPSUBQ(repeat64("roundMagicDouble", magic), v, v)
	total := Mem{Base: sum, Index: done, Scale: 8}
	VPADDQ(total, v, v)
	VMOVDQU(v, total)
	ADDQ(Imm(4), done)
	CMPQ(done, n)
	JLT(LabelRef("four"))
	Label("end")
	VZEROUPPER()
	Store(done, ReturnIndex(0))
	RET()
}
