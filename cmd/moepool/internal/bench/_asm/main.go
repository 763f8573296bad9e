// Command _asm writes the assembly loops of package bench: reading memory, and multiply-adds that need no memory at all. Run it with
// generate.sh, in this folder.
//
// Each loop does a fixed number of independent steps per iteration, enough to hide the latency of its instructions; the Go side
// cuts the work into calls of at most about 100 µs.
package main

import (
	"fmt"

	. "github.com/mmcloughlin/avo/build"
	"github.com/mmcloughlin/avo/ir"
	. "github.com/mmcloughlin/avo/operand"
	"github.com/mmcloughlin/avo/reg"
)

func main() {
	ConstraintExpr("amd64")
	ConstraintExpr("!purego")

	readStreams()
	multiplyAdds("fmaAVX2", false, func(accumulator, x, y reg.VecVirtual) { VFMADD231PS(x, y, accumulator) }, 12)
	multiplyAdds("fmaAVX512", true, func(accumulator, x, y reg.VecVirtual) { VFMADD231PS(x, y, accumulator) }, 12)
	multiplyAdds("dotAVX512", true, func(accumulator, x, y reg.VecVirtual) { VPDPBUSD(x, y, accumulator) }, 12)
	dotAVX2()
	dotAVXVNNI()

	Generate()
}

// readStreams loads from four places in turn, 128 bytes each: with step 512 and neighbouring places that is one stream through memory, with
// step 128 and places far apart it is four, which keeps more of the hardware's prefetchers busy.
func readStreams() {
	TEXT("readStreams", NOSPLIT, "func(p0, p1, p2, p3 *byte, ahead, step, iterations int) (mixed uint64)")
	Doc("readStreams loads, with AVX2, 128 bytes from each of four places per iteration and moves each place step bytes on; it prefetches what",
		"lies ahead bytes behind. mixed keeps the loads from being for nothing.")
	Pragma("noescape")
	var p [4]reg.Register
	for i := range p {
		p[i] = Load(Param(fmt.Sprintf("p%d", i)), GP64())
	}
	ahead := Load(Param("ahead"), GP64())
	step := Load(Param("step"), GP64())
	n := Load(Param("iterations"), GP64())
	var sum [4]reg.VecVirtual
	for i := range sum {
		sum[i] = YMM()
		VPXOR(sum[i], sum[i], sum[i])
	}
	Label("line")
	for i := range p {
		for half := 0; half < 128; half += 64 {
			PREFETCHT0(Mem{Base: p[i], Index: ahead, Scale: 1, Disp: half})
		}
		for part := range 4 {
			VPXOR(Mem{Base: p[i], Disp: 32 * part}, sum[part], sum[part])
		}
		ADDQ(step, p[i])
	}
	DECQ(n)
	JNZ(LabelRef("line"))
	VPXOR(sum[1], sum[0], sum[0])
	VPXOR(sum[3], sum[2], sum[2])
	VPXOR(sum[2], sum[0], sum[0])
	mixed := GP64()
	VMOVQ(sum[0].AsX(), mixed)
	VZEROUPPER()
	Store(mixed, ReturnIndex(0))
	RET()
}

// multiplyAdds is a loop of independent multiply-adds of registers that hold zeros.
func multiplyAdds(name string, wide bool, instruction func(accumulator, x, y reg.VecVirtual), accumulators int) {
	vector := YMM
	if wide {
		vector = ZMM
	}
	TEXT(name, NOSPLIT, "func(iterations int)")
	Doc(fmt.Sprintf("%s does %d vector multiply-adds per iteration.", name, accumulators))
	n := Load(Param("iterations"), GP64())
	zero := func() reg.VecVirtual {
		r := vector()
		if wide {
			VPXORQ(r, r, r)
		} else {
			VPXOR(r, r, r)
		}
		return r
	}
	x, y := zero(), zero()
	sums := make([]reg.VecVirtual, accumulators)
	for i := range sums {
		sums[i] = zero()
	}
	Label("step")
	for _, s := range sums {
		instruction(s, x, y)
	}
	DECQ(n)
	JNZ(LabelRef("step"))
	VZEROUPPER()
	RET()
}

// dotAVX2 is what int8 products take without VPDPBUSD.
func dotAVX2() {
	TEXT("dotAVX2", NOSPLIT, "func(iterations int)")
	Doc("dotAVX2 does 6 vector products of bytes per iteration: VPMADDUBSW, VPMADDWD, VPADDD.")
	n := Load(Param("iterations"), GP64())
	zero := func() reg.VecVirtual {
		r := YMM()
		VPXOR(r, r, r)
		return r
	}
	x, y, ones := zero(), zero(), zero()
	var sums [6]reg.VecVirtual
	for i := range sums {
		sums[i] = zero()
	}
	Label("step")
	for _, s := range sums {
		product := YMM()
		VPMADDUBSW(x, y, product)
		VPMADDWD(ones, product, product)
		VPADDD(product, s, s)
	}
	DECQ(n)
	JNZ(LabelRef("step"))
	VZEROUPPER()
	RET()
}

// dotAVXVNNI writes VPDPBUSD in its VEX form byte by byte: neither avo nor the assembler knows it. Registers are fixed, and avo sees
// nothing of them.
func dotAVXVNNI() {
	TEXT("dotAVXVNNI", NOSPLIT, "func(iterations int)")
	Doc("dotAVXVNNI does 12 VPDPBUSD of 32 bytes in their VEX form per iteration.")
	n := Load(Param("iterations"), GP64())
	for _, r := range []reg.VecPhysical{reg.Y0, reg.Y1, reg.Y2, reg.Y3, reg.Y4, reg.Y5, reg.Y6, reg.Y7, reg.Y8, reg.Y9, reg.Y10, reg.Y11, reg.Y12, reg.Y13} {
		VPXOR(r, r, r)
	}
	Label("step")
	for accumulator := range 12 {
		vpdpbusd(accumulator, 12, 13)
	}
	DECQ(n)
	JNZ(LabelRef("step"))
	VZEROUPPER()
	RET()
}

// vpdpbusd is {vex} VPDPBUSD ymm(accumulator), ymm(x), ymm(y): VEX.256.66.0F38.W0 50 /r, bits R, X, B and vvvv inverted.
func vpdpbusd(accumulator, x, y int) {
	code := []int{
		0xc4,
		(^accumulator>>3&1)<<7 | 1<<6 | (^y>>3&1)<<5 | 0x02,
		(^x&15)<<3 | 1<<2 | 0x01,
		0x50,
		0xc0 | accumulator&7<<3 | y&7,
	}
	for _, b := range code {
		Instruction(&ir.Instruction{Opcode: "BYTE", Operands: []Op{U8(b)}})
	}
}
