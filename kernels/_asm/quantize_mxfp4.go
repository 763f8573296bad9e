package main

import (
	"fmt"

	. "github.com/mmcloughlin/avo/build"
	. "github.com/mmcloughlin/avo/operand"
	. "github.com/mmcloughlin/avo/reg"
)

// mxfp4Thresholds are the magnitudes above which, or from which on, the code is one larger.
var mxfp4Thresholds = []struct {
	name    string
	size    float32
	reached bool // the threshold itself belongs to the larger code, which is even
}{
	{"quarter", 0.25, false}, {"threeQuarters", 0.75, true}, {"fiveQuarters", 1.25, false}, {"sevenQuarters", 1.75, true},
	{"fiveHalves", 2.5, false}, {"sevenHalves", 3.5, true}, {"five", 5, false},
}

const notLess, above = U8(0x1d), U8(0x1e) // quiet predicates of VCMPPS

// mxfp4Sizes are the values of the codes without a sign.
func mxfp4Sizes() Mem {
	return constant("mxfp4Sizes", func() {
		for code, size := range []float32{0, 0.5, 1, 1.5, 2, 3, 4, 6} {
			DATA(4*code, F32(size))
		}
	})
}

// mxfp4CodesOf gives the codes, without signs, of eight magnitudes.
func mxfp4CodesOf(sizes VecVirtual) VecVirtual {
	codes, mask := YMM(), YMM()
	for i, t := range mxfp4Thresholds {
		predicate := above
		if t.reached {
			predicate = notLess
		}
		VCMPPS(predicate, repeatFloat(t.name, t.size), sizes, mask)
		if i == 0 {
			VXORPS(codes, codes, codes)
		}
		VPSUBD(mask, codes, codes)
	}
	return codes
}

// quantizeWeightsMXFP4 keeps the magnitudes of a group, in units of the specification's scale, in registers while it tries exponents.
func quantizeWeightsMXFP4() {
	function("quantizeWeightsMXFP4AVX2", "func(codes, scales *byte, weights *float32, groups int)",
		"quantizeWeightsMXFP4AVX2 quantises whole groups of 32 finite weights to codes, one a byte, and e8m0 scales.")
	codes, scales, weights, groups := pointer("codes"), pointer("scales"), pointer("weights"), pointer("groups")
	exponent, best, inverse, down := GP32(), GP32(), GP32(), GP32()

	loop("group", groups, 1, func() {
		var sizes [4]VecVirtual
		largest := YMM()
		for i := range sizes {
			sizes[i] = load(weights, 32*i)
			VPAND(absMask(), sizes[i], sizes[i])
			if i == 0 {
				VMOVAPS(sizes[0], largest)
			} else {
				VPMAXSD(sizes[i], largest, largest)
			}
		}
		bits := GP32()
		VMOVD(maxLanes(largest), bits)
		CMPL(bits, U32(3<<23)) // 2^-124
		JB(LabelRef("zeros"))
		MOVL(bits, exponent)
		SHRL(Imm(23), exponent)
		SUBL(Imm(2), exponent)
		MOVL(U32(254), inverse)
		SUBL(exponent, inverse)
		SHLL(Imm(23), inverse)
		factor := broadcastBits(inverse)
		for i := range sizes {
			VMULPS(factor, sizes[i], sizes[i])
		}
		smallest := XMM()
		VMOVSS(infinity(), smallest)
		XORL(best, best)
		for n, try := range []struct {
			distance int32
			up, down Mem
		}{{}, {1, repeatFloat("two", 2), repeatFloat("half", 0.5)}, {-1, repeatFloat("half", 0.5), repeatFloat("two", 2)}} {
			worse := fmt.Sprintf("worse%d", n)
			if try.distance > 0 {
				CMPL(exponent, U32(252)) // the largest that is chosen
				JAE(LabelRef(worse))
			}
			lanes := YMM()
			for i := range sizes {
				scaled, values := sizes[i], YMM()
				if try.distance != 0 {
					scaled = YMM()
					VMULPS(try.down, sizes[i], scaled)
				}
				VPERMPS(mxfp4Sizes(), mxfp4CodesOf(scaled), values)
				if try.distance != 0 {
					VMULPS(try.up, values, values)
				}
				VSUBPS(values, sizes[i], values)
				VMULPS(values, values, values)
				if i == 0 {
					VMOVAPS(values, lanes)
				} else {
					VADDPS(values, lanes, lanes)
				}
			}
			cost := reduce(lanes, func(a, b, c Op) { VADDPS(a, b, c) })
			VUCOMISS(cost, smallest)
			JBE(LabelRef(worse))
			VMOVAPS(cost, smallest)
			MOVL(I32(try.distance), best)
			Label(worse)
		}
		MOVL(U32(127), down)
		SUBL(best, down)
		SHLL(Imm(23), down)
		factor = broadcastBits(down)
		var words [2]VecVirtual
		for i := range words {
			var signed [2]VecVirtual
			for j := range signed {
				size, sign := sizes[2*i+j], YMM()
				VMULPS(factor, size, size)
				signed[j] = mxfp4CodesOf(size)
				VPSRLD(Imm(28), load(weights, 32*(2*i+j)), sign)
				VPAND(repeat32("signOfCode", 8), sign, sign)
				VPOR(sign, signed[j], signed[j])
			}
			words[i] = YMM()
			VPACKSSDW(signed[1], signed[0], words[i])
		}
		bytes := YMM()
		VPACKSSWB(words[1], words[0], bytes)
		VPERMD(bytes, loadYMM(packOrder()), bytes)
		VMOVDQU(bytes, Mem{Base: codes})
		ADDL(exponent, best)
		MOVB(best.(GPVirtual).As8(), Mem{Base: scales})
		JMP(LabelRef("next"))

		Label("zeros")
		zero := YMM()
		VPXOR(zero, zero, zero)
		VMOVDQU(zero, Mem{Base: codes})
		MOVB(U8(127), Mem{Base: scales})
		Label("next")
		advance(1, scales)
		advance(32, codes)
		ADDQ(U32(128), weights)
	})
	finish()
}
