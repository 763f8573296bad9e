package main

import (
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

func infinity() Mem { return repeat32("infinity", 0x7f800000) }
func absMask() Mem  { return repeat32("absMask", 0x7fffffff) }

var expCoefficients = []struct {
	name  string
	value float32
}{
	{"exp6", 1.3981999507e-3}, {"exp5", 8.3334519073e-3}, {"exp4", 4.1665795894e-2}, {"exp3", 1.6666665459e-1}, {"exp2", 5.0000001201e-1},
	{"one", 1}, {"one", 1},
}

// exp gives Exp of eight values, exactly the operations of the Go function.
func exp(x VecVirtual) VecVirtual {
	shifted, n, r, p := YMM(), YMM(), YMM(), YMM()
	VMOVUPS(repeatFloat("roundMagic", 3<<22), shifted)
	VFMADD231PS(repeatFloat("log2e", 1.44269504088896341), x, shifted)
	VSUBPS(repeatFloat("roundMagic", 3<<22), shifted, n)
	VMOVAPS(x, r)
	VFMADD231PS(repeatFloat("minusLn2High", -0.693359375), n, r)
	VFMADD231PS(repeatFloat("minusLn2Low", 2.12194440054690583e-4), n, r)
	VMOVUPS(repeatFloat("exp7", 1.9875691500e-4), p)
	for _, c := range expCoefficients {
		VFMADD213PS(repeatFloat(c.name, c.value), r, p)
	}
	VPSLLD(Imm(23), shifted, shifted)
	VPADDD(shifted, p, p)

	mask := YMM()
	VCMPPS(greaterThan, repeatFloat("expHighest", 88.72283), x, mask)
	VBLENDVPS(mask, infinity(), p, p)
	VCMPPS(lessThan, repeatFloat("expLowest", -87.33654), x, mask)
	VANDNPS(p, mask, p)
	VCMPPS(unordered, x, x, mask)
	VBLENDVPS(mask, x, p, p)
	return p
}

// loop emits a loop over n elements, a positive multiple of step; body advances the pointers.
func loop(label string, n Register, step int, body func()) {
	Label(label)
	body()
	SUBQ(Imm(uint64(step)), n)
	JNZ(LabelRef(label))
}

func advance(bytes int, pointers ...Register) {
	for _, p := range pointers {
		ADDQ(Imm(uint64(bytes)), p)
	}
}

func function(name, signature string, doc ...string) {
	TEXT(name, NOSPLIT, signature)
	Doc(doc...)
	Pragma("noescape")
}

func finish() {
	VZEROUPPER()
	RET()
}

func pointer(name string) Register { return Load(Param(name), GP64()) }

// broadcast loads a float32 argument into all lanes.
func broadcast(name string) VecVirtual {
	y := YMM()
	VBROADCASTSS(parameter(name), y)
	return y
}

func load(p Register, disp int) VecVirtual {
	r := YMM()
	VMOVUPS(Mem{Base: p, Disp: disp}, r)
	return r
}

func siluMultiply() {
	function("siluMultiplyAVX2", "func(dst, gate, up *float32, n int)",
		"siluMultiplyAVX2 stores silu(gate)·up; n is a positive multiple of 8.")
	dst, gate, up, n := pointer("dst"), pointer("gate"), pointer("up"), pointer("n")
	loop("eight", n, 8, func() {
		x := YMM()
		VMOVUPS(repeatFloat("minusLargest", -math.MaxFloat32), x)
		VMAXPS(Mem{Base: gate}, x, x) // the second operand, gate, if one is a NaN
		minus := YMM()
		VXORPS(repeat32("signBits", 0x80000000), x, minus)
		e := exp(minus)
		VADDPS(repeatFloat("one", 1), e, e)
		VDIVPS(e, x, x)
		VMULPS(Mem{Base: up}, x, x)
		VMOVUPS(x, Mem{Base: dst})
		advance(32, dst, gate, up)
	})
	finish()
}

func expMinus() {
	function("expMinusAVX2", "func(x *float32, n int, shift float32)",
		"expMinusAVX2 replaces each x by Exp(x-shift); n is a positive multiple of 8.")
	x, n, shift := pointer("x"), pointer("n"), broadcast("shift")
	loop("eight", n, 8, func() {
		v := load(x, 0)
		VSUBPS(shift, v, v)
		VMOVUPS(exp(v), Mem{Base: x})
		advance(32, x)
	})
	finish()
}
