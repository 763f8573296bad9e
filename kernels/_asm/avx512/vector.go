package main

import (
	"fmt"
	"math"

	. "github.com/mmcloughlin/avo/build"
	. "github.com/mmcloughlin/avo/operand"
	. "github.com/mmcloughlin/avo/reg"
)

// Predicates of VCMPPS and VCMPPD.
const (
	unordered   = U8(3)
	notLessThan = U8(5) // true for NaN
	lessThan    = U8(0x11)
	greaterThan = U8(0x1e)
)

var constants = map[string]Mem{}

// float32Constant is four bytes, for embedded broadcasts.
func float32Constant(name string, value float32) Mem {
	return bitsConstant(name, math.Float32bits(value))
}

func bitsConstant(name string, bits uint32) Mem {
	if m, ok := constants[name]; ok {
		return m
	}
	m := GLOBL(fmt.Sprintf("%sAVX512", name), 8|16) // RODATA|NOPTR
	DATA(0, U32(bits))
	constants[name] = m
	return m
}

func everywhere(m Mem) VecVirtual {
	v := ZMM()
	VBROADCASTSS(m, v)
	return v
}

// broadcast loads a float32 argument into all lanes.
func broadcast(name string) VecVirtual {
	z := ZMM()
	VBROADCASTSS(parameter(name), z)
	return z
}

// sixteens emits a loop over n ≥ 1 elements, 16 at a time; K1 has the lanes that there are. body advances the pointers.
func sixteens(n Register, body func()) {
	bits := GP32()
	MOVL(U32(0xffff), bits)
	KMOVW(bits, K1)
	Label("sixteen")
	CMPQ(n, Imm(16))
	JGE(LabelRef("whole"))
	firstLanes(n, K1)
	Label("whole")
	body()
	SUBQ(Imm(16), n)
	JG(LabelRef("sixteen"))
}

// firstLanes sets the first n < 16 bits of a mask.
func firstLanes(n Register, mask Physical) {
	MOVQ(n, RCX)
	bits := GP32()
	MOVL(U32(1), bits)
	SHLL(CL, bits)
	DECL(bits)
	KMOVW(bits, mask)
}

func advance(bytes int, pointers ...Register) {
	for _, p := range pointers {
		ADDQ(Imm(uint64(bytes)), p)
	}
}

func maskedLoad(p Register) VecVirtual {
	v := ZMM()
	VMOVUPS_Z(Mem{Base: p}, K1, v)
	return v
}

var expCoefficients = []struct {
	name  string
	value float32
}{
	{"exp6", 1.3981999507e-3}, {"exp5", 8.3334519073e-3}, {"exp4", 4.1665795894e-2}, {"exp3", 1.6666665459e-1}, {"exp2", 5.0000001201e-1},
	{"one", 1}, {"one", 1},
}

// exp gives Exp of 16 values, exactly the operations of the Go function. It changes K5.
func exp(x VecVirtual) VecVirtual {
	magic := float32Constant("roundMagic", 3<<22)
	shifted, n, r := everywhere(magic), ZMM(), ZMM()
	VFMADD231PS_BCST(float32Constant("log2e", 1.44269504088896341), x, shifted)
	VSUBPS_BCST(magic, shifted, n)
	VMOVAPS(x, r)
	VFMADD231PS_BCST(float32Constant("minusLn2High", -0.693359375), n, r)
	VFMADD231PS_BCST(float32Constant("minusLn2Low", 2.12194440054690583e-4), n, r)
	p := everywhere(float32Constant("exp7", 1.9875691500e-4))
	for _, c := range expCoefficients {
		VFMADD213PS_BCST(float32Constant(c.name, c.value), r, p)
	}
	VPSLLD(Imm(23), shifted, shifted)
	VPADDD(shifted, p, p)

	VCMPPS_BCST(greaterThan, float32Constant("expHighest", 88.72283), x, K5)
	VBROADCASTSS(bitsConstant("infinity", 0x7f800000), K5, p)
	VCMPPS_BCST(lessThan, float32Constant("expLowest", -87.33654), x, K5)
	VPXORD(p, p, K5, p)
	VCMPPS(unordered, x, x, K5)
	VMOVAPS(x, K5, p)
	return p
}

func siluMultiply() {
	function("siluMultiplyAVX512", "func(dst, gate, up *float32, n int)", "siluMultiplyAVX512 stores silu(gate)·up for n ≥ 1 elements.")
	dst, gate, up, n := pointer("dst"), pointer("gate"), pointer("up"), pointer("n")
	sixteens(n, func() {
		x := everywhere(float32Constant("minusLargest", -math.MaxFloat32))
		VMAXPS(maskedLoad(gate), x, x) // the second operand, gate, if one is a NaN
		minus := ZMM()
		VPXORD_BCST(bitsConstant("signBit", 0x80000000), x, minus)
		e := exp(minus)
		VADDPS_BCST(float32Constant("one", 1), e, e)
		VDIVPS(e, x, x)
		VMULPS(maskedLoad(up), x, x)
		VMOVUPS(x, K1, Mem{Base: dst})
		advance(64, dst, gate, up)
	})
	finish()
}

func expMinus() {
	function("expMinusAVX512", "func(x *float32, n int, shift float32)", "expMinusAVX512 replaces n ≥ 1 values x by Exp(x-shift).")
	x, n, shift := pointer("x"), pointer("n"), broadcast("shift")
	sixteens(n, func() {
		v := maskedLoad(x)
		VSUBPS(shift, v, v)
		VMOVUPS(exp(v), K1, Mem{Base: x})
		advance(64, x)
	})
	finish()
}

// accumulate converts with the rounding of MXCSR, which is to the nearest, ties to even, in Go programs.
func accumulate() {
	function("accumulateAVX512", "func(sum *int64, y *float32, n int, weight float64) int",
		"accumulateAVX512 adds round-half-even(weight·y) to sum, eight at a time; n is a positive multiple of 8. It stops before eight",
		"of which one reaches 2^51 or is a NaN, and gives the number done.")
	sum, y, n := pointer("sum"), pointer("y"), pointer("n")
	w, limit, abs := ZMM(), ZMM(), ZMM()
	VBROADCASTSD(parameter("weight"), w)
	bits, done, flags := GP64(), GP64(), GP32()
	MOVQ(U64(0x4320000000000000), bits) // 2^51
	VPBROADCASTQ(bits, limit)
	MOVQ(U64(0x7fffffffffffffff), bits)
	VPBROADCASTQ(bits, abs)
	XORQ(done, done)
	Label("eight")
	v, size := ZMM(), ZMM()
	VCVTPS2PD(Mem{Base: y, Index: done, Scale: 4}, v)
	VMULPD(w, v, v)
	VPANDQ(abs, v, size)
	VCMPPD(notLessThan, limit, size, K1)
	KMOVW(K1, flags)
	TESTL(flags, flags)
	JNZ(LabelRef("end"))
	VCVTPD2QQ(v, v)
	total := Mem{Base: sum, Index: done, Scale: 8}
	VPADDQ(total, v, v)
	VMOVDQU64(v, total)
	ADDQ(Imm(8), done)
	CMPQ(done, n)
	JLT(LabelRef("eight"))
	Label("end")
	VZEROUPPER()
	Store(done, ReturnIndex(0))
	RET()
}

func fromFixed() {
	function("fromFixedAVX512", "func(dst *float32, sum *int64, n int)",
		"fromFixedAVX512 stores float32(sum)·2^-28; n is a positive multiple of 8.")
	dst, sum, n := pointer("dst"), pointer("sum"), pointer("n")
	Label("eight")
	v := YMM()
	VCVTQQ2PS(Mem{Base: sum}, v)
	VMULPS_BCST(float32Constant("fixedUnit", 0x1p-28), v, v)
	VMOVUPS(v, Mem{Base: dst})
	advance(64, sum)
	advance(32, dst)
	SUBQ(Imm(8), n)
	JNZ(LabelRef("eight"))
	finish()
}
