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

// groupScale gives the float32 bits of maxabs/127 over the 64 values at x, and maxabs' bits.
func groupScale(x Register, mask, divisor VecVirtual) (scale, largestBits Register) {
	largest := YMM()
	VPAND(Mem{Base: x}, mask, largest)
	for i := 1; i < 8; i++ {
		v := YMM()
		VPAND(Mem{Base: x, Disp: 32 * i}, mask, v)
		VPMAXSD(v, largest, largest)
	}
	top := maxLanes(largest)
	largestBits, scale = GP32(), GP32()
	VMOVD(top, largestBits)
	VDIVSS(divisor, top, top)
	VMOVD(top, scale)
	return scale, largestBits
}

// roundCodes gives round-half-even(x/scale) of 64 values as two vectors of bytes.
func roundCodes(x Register, scale, order VecVirtual) (codes [2]VecVirtual) {
	var words [4]VecVirtual
	for i := range words {
		low, high := load(x, 64*i), load(x, 64*i+32)
		VDIVPS(scale, low, low)
		VDIVPS(scale, high, high)
		VCVTPS2DQ(low, low)
		VCVTPS2DQ(high, high)
		words[i] = YMM()
		VPACKSSDW(high, low, words[i])
	}
	for i := range codes {
		codes[i] = YMM()
		VPACKSSWB(words[2*i+1], words[2*i], codes[i])
		VPERMD(codes[i], order, codes[i])
	}
	return codes
}

func largestCode() VecVirtual {
	divisor := XMM()
	VMOVSS(repeatFloat("largestCode", 127), divisor)
	return divisor
}

func broadcastBits(bits Register) VecVirtual {
	low, wide := XMM(), YMM()
	VMOVD(bits, low)
	VPBROADCASTD(low, wide)
	return wide
}

func quantize() {
	const smallestNormal = 0x00800000
	function("quantizeAVX2", "func(codes *int8, scales, x *float32, groups int) bool",
		"quantizeAVX2 quantises whole groups of 64 activations; false if one is not finite.")
	codes, scales, x, groups := pointer("codes"), pointer("scales"), pointer("x"), pointer("groups")
	mask, order, divisor := loadYMM(absMask()), loadYMM(packOrder()), largestCode()

	loop("group", groups, 1, func() {
		scale, largest := groupScale(x, mask, divisor)
		CMPL(largest, U32(0x7f800000))
		JAE(LabelRef("infinite"))
		CMPL(scale, U32(smallestNormal))
		JB(LabelRef("zeros"))
		MOVL(scale, Mem{Base: scales})
		for i, bytes := range roundCodes(x, broadcastBits(scale), order) {
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
	for _, finite := range []uint8{1, 0} {
		result := GP8()
		MOVB(U8(finite), result)
		VZEROUPPER()
		Store(result, ReturnIndex(0))
		RET()
		if finite == 1 {
			Label("infinite")
		}
	}
}

func quantizeWeights() {
	const smallestNormalBF16 = 0x80
	function("quantizeWeightsAVX2", "func(codes *byte, scales *uint16, weights *float32, groups int)",
		"quantizeWeightsAVX2 quantises whole groups of 64 finite weights to bytes code+128 with bfloat16 scales.")
	codes, scales, x, groups := pointer("codes"), pointer("scales"), pointer("weights"), pointer("groups")
	mask, order, divisor, sign := loadYMM(absMask()), loadYMM(packOrder()), largestCode(), loadYMM(signBytes())

	loop("group", groups, 1, func() {
		scale, _ := groupScale(x, mask, divisor)
		odd := GP32() // to bfloat16, nearest even
		MOVL(scale, odd)
		SHRL(Imm(16), odd)
		ANDL(Imm(1), odd)
		ADDL(odd, scale)
		ADDL(U32(0x7fff), scale)
		SHRL(Imm(16), scale)
		CMPL(scale, U32(smallestNormalBF16))
		JB(LabelRef("zeros"))
		MOVW(scale.(GPVirtual).As16(), Mem{Base: scales})
		SHLL(Imm(16), scale)
		for i, bytes := range roundCodes(x, broadcastBits(scale), order) {
			VPXOR(sign, bytes, bytes)
			VMOVDQU(bytes, Mem{Base: codes, Disp: 32 * i})
		}
		JMP(LabelRef("next"))
		Label("zeros")
		MOVW(U16(0), Mem{Base: scales})
		VMOVDQU(sign, Mem{Base: codes})
		VMOVDQU(sign, Mem{Base: codes, Disp: 32})
		Label("next")
		advance(2, scales)
		advance(64, codes)
		ADDQ(U32(256), x)
	})
	finish()
}
