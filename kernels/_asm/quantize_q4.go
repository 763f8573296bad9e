package main

import (
	. "github.com/mmcloughlin/avo/build"
	. "github.com/mmcloughlin/avo/operand"
	. "github.com/mmcloughlin/avo/reg"
)

const q4Candidates = 20

// q4Reciprocals are the factors of the candidate scales, as in the reference.
func q4Reciprocals() Mem {
	return constant("q4Reciprocals", func() {
		for k := range q4Candidates {
			DATA(4*k, F32(float32(-1/(6.5+0.1875*float64(k)))))
		}
	})
}

// reduce combines the eight lanes by halves; the result is in all of the lower four.
func reduce(v VecVirtual, combine func(a, b, c Op)) VecVirtual {
	low, high := XMM(), XMM()
	VEXTRACTF128(Imm(1), v, high)
	combine(high, v.AsX(), low)
	VPERMILPS(Imm(0x4e), low, high)
	combine(high, low, low)
	VPERMILPS(Imm(0xb1), low, high)
	combine(high, low, low)
	return low
}

func broadcastLow(x VecVirtual) VecVirtual {
	wide := YMM()
	VBROADCASTSS(x, wide)
	return wide
}

// quantizeWeightsQ4 keeps the 32 weights of a group in registers while it tries the candidate scales.
func quantizeWeightsQ4() {
	function("quantizeWeightsQ4AVX2", "func(codes *byte, scales *uint16, weights *float32, groups int)",
		"quantizeWeightsQ4AVX2 quantises whole groups of 32 finite weights to bytes code+8 with the bfloat16 scales of least error.")
	codes, scales, weights, groups := pointer("codes"), pointer("scales"), pointer("weights"), pointer("groups")
	reciprocals, k, best, scale := GP64(), GP64(), GP32(), GP32()
	LEAQ(q4Reciprocals(), reciprocals)

	// quotient gives weights·inverse and its code, as float32.
	quotient := func(w, inverse VecVirtual) (exact, code VecVirtual) {
		exact, code = YMM(), YMM()
		VMULPS(inverse, w, exact)
		VROUNDPS(Imm(0), exact, code) // nearest, ties to even
		VMAXPS(repeatFloat("q4SmallestCode", -8), code, code)
		VMINPS(repeatFloat("q4LargestCode", 7), code, code)
		return exact, code
	}
	loop("group", groups, 1, func() {
		var w [4]VecVirtual
		for i := range w {
			w[i] = load(weights, 32*i)
		}
		highs, lows := YMM(), YMM()
		VXORPS(highs, highs, highs)
		VXORPS(lows, lows, lows)
		for i := range w {
			VMAXPS(w[i], highs, highs)
			VMINPS(w[i], lows, lows)
		}
		largest, lowest := reduce(highs, func(a, b, c Op) { VMAXPS(a, b, c) }), reduce(lows, func(a, b, c Op) { VMINPS(a, b, c) })
		minus := XMM()
		VXORPS(repeat32("signBits", 0x80000000), lowest, minus)
		VUCOMISS(minus, largest)
		JAE(LabelRef("positive"))
		VMOVAPS(lowest, largest)
		Label("positive")
		size := GP32()
		VMOVD(largest, size)
		ANDL(I32(0x7fffffff), size)
		CMPL(size, U32((127-122)<<23)) // 2^-122
		JB(LabelRef("zeros"))

		smallest, one := XMM(), XMM()
		VMOVSS(infinity(), smallest)
		VMOVSS(repeatFloat("one", 1), one)
		XORL(best, best)
		XORQ(k, k)
		Label("candidate")
		product := XMM()
		VMULSS(Mem{Base: reciprocals, Index: k, Scale: 4}, largest, product)
		VMOVD(product, scale)
		odd := GP32() // to bfloat16, nearest even
		MOVL(scale, odd)
		SHRL(Imm(16), odd)
		ANDL(Imm(1), odd)
		ADDL(odd, scale)
		ADDL(U32(0x7fff), scale)
		ANDL(U32(0xffff0000), scale)
		step, inverse, share := XMM(), XMM(), XMM()
		VMOVD(scale, step)
		VDIVSS(step, one, inverse)
		VDIVSS(largest, step, share)
		wide := broadcastLow(inverse)
		lanes := YMM()
		for i := range w {
			exact, code := quotient(w[i], wide)
			VSUBPS(code, exact, exact)
			VMULPS(exact, exact, exact)
			if i == 0 {
				VMOVAPS(exact, lanes)
			} else {
				VADDPS(exact, lanes, lanes)
			}
		}
		cost := reduce(lanes, func(a, b, c Op) { VADDPS(a, b, c) })
		VMULSS(share, cost, cost)
		VMULSS(share, cost, cost)
		VUCOMISS(cost, smallest)
		JBE(LabelRef("worse"))
		VMOVAPS(cost, smallest)
		MOVL(scale, best)
		Label("worse")
		INCQ(k)
		CMPQ(k, Imm(q4Candidates))
		JNE(LabelRef("candidate"))

		chosen := XMM()
		VMOVD(best, chosen)
		VDIVSS(chosen, one, chosen)
		final := broadcastLow(chosen)
		var words [2]VecVirtual
		for i := range words {
			_, low := quotient(w[2*i], final)
			_, high := quotient(w[2*i+1], final)
			VCVTPS2DQ(low, low)
			VCVTPS2DQ(high, high)
			words[i] = YMM()
			VPACKSSDW(high, low, words[i])
		}
		bytes := YMM()
		VPACKSSWB(words[1], words[0], bytes)
		VPERMD(bytes, loadYMM(packOrder()), bytes)
		VPADDB(repeat32("eightBytes", 0x08080808), bytes, bytes)
		VMOVDQU(bytes, Mem{Base: codes})
		SHRL(Imm(16), best)
		MOVW(best.(GPVirtual).As16(), Mem{Base: scales})
		JMP(LabelRef("next"))

		Label("zeros")
		zero := loadYMM(repeat32("eightBytes", 0x08080808))
		VMOVDQU(zero, Mem{Base: codes})
		MOVW(U16(0), Mem{Base: scales})
		Label("next")
		advance(2, scales)
		advance(32, codes)
		ADDQ(U32(128), weights)
	})
	finish()
}
