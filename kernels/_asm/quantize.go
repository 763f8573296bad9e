package main

import (
	. "github.com/mmcloughlin/avo/build"
	. "github.com/mmcloughlin/avo/operand"
	. "github.com/mmcloughlin/avo/reg"
)

// maxLanes reduces eight non-negative integers to the largest, in all four lanes of the result.
func maxLanes(v VecVirtual) VecVirtual {
	low, high := XMM(), XMM()
	VEXTRACTI128(Imm(1), v, high)
	VPMAXSD(v.AsX(), high, low)
	VPSHUFD(Imm(0x4e), low, high)
	VPMAXSD(high, low, low)
	VPSHUFD(Imm(0xb1), low, high)
	VPMAXSD(high, low, low)
	return low
}

// largestBits: absolute values compare as their bits do, with infinities and NaNs on top.
func largestBits() {
	function("largestBitsAVX2", "func(x *float32, n int) uint32",
		"largestBitsAVX2 is the largest of the bits of |x|; n is a positive multiple of 8.")
	x, n := pointer("x"), pointer("n")
	largest, mask := YMM(), loadYMM(absMask())
	VPXOR(largest, largest, largest)
	loop("eight", n, 8, func() {
		v := YMM()
		VPAND(Mem{Base: x}, mask, v)
		VPMAXSD(v, largest, largest)
		advance(32, x)
	})
	bits := GP32()
	VMOVD(maxLanes(largest), bits)
	VZEROUPPER()
	Store(bits, ReturnIndex(0))
	RET()
}

func packOrder() Mem {
	return constant("packOrder", func() {
		for i, lane := range []uint32{0, 4, 1, 5, 2, 6, 3, 7} {
			DATA(4*i, U32(lane))
		}
	})
}

func quantize() {
	function("quantizeAVX2", "func(codes *int8, scales, x *float32, groups int) bool",
		"quantizeAVX2 quantises whole groups of 64 columns; false if one is not finite.")
	codes, scales, x, groups := pointer("codes"), pointer("scales"), pointer("x"), pointer("groups")
	mask, order := loadYMM(absMask()), loadYMM(packOrder())
	infinityBits, smallest := GP32(), XMM()
	MOVL(U32(0x7f800000), infinityBits)
	VMOVSS(repeatFloat("smallestNormal", 0x1p-126), smallest)
	divisor := XMM()
	VMOVSS(repeatFloat("largestCode", 127), divisor)

	loop("group", groups, 1, func() {
		largest := YMM()
		VPAND(Mem{Base: x}, mask, largest)
		for i := 1; i < 8; i++ {
			v := YMM()
			VPAND(Mem{Base: x, Disp: 32 * i}, mask, v)
			VPMAXSD(v, largest, largest)
		}
		top := maxLanes(largest)
		bits := GP32()
		VMOVD(top, bits)
		CMPL(bits, infinityBits)
		JAE(LabelRef("infinite"))
		scale := XMM()
		VDIVSS(divisor, top, scale)
		VUCOMISS(smallest, scale) // flags of scale against smallest
		JB(LabelRef("zeros"))
		VMOVSS(scale, Mem{Base: scales})
		wide := YMM()
		VBROADCASTSS(scale, wide)
		var words [4]VecVirtual
		for i := range words {
			low, high := load(x, 64*i), load(x, 64*i+32)
			VDIVPS(wide, low, low)
			VDIVPS(wide, high, high)
			VCVTPS2DQ(low, low)
			VCVTPS2DQ(high, high)
			words[i] = YMM()
			VPACKSSDW(high, low, words[i])
		}
		for i := range 2 {
			bytes := YMM()
			VPACKSSWB(words[2*i+1], words[2*i], bytes)
			VPERMD(bytes, order, bytes)
			VMOVDQU(bytes, Mem{Base: codes, Disp: 32 * i})
		}
		JMP(LabelRef("next"))
		Label("zeros")
		zero := YMM()
		VPXOR(zero, zero, zero)
		VMOVSS(zero.AsX(), Mem{Base: scales})
		VMOVDQU(zero, Mem{Base: codes})
		VMOVDQU(zero, Mem{Base: codes, Disp: 32})
		Label("next")
		advance(4, scales)
		advance(64, codes)
		ADDQ(U32(256), x)
	})
	result := GP8()
	MOVB(U8(1), result)
	VZEROUPPER()
	Store(result, ReturnIndex(0))
	RET()
	Label("infinite")
	failed := GP8()
	MOVB(U8(0), failed)
	VZEROUPPER()
	Store(failed, ReturnIndex(0))
	RET()
}
