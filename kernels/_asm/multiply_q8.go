package main

import (
	"fmt"

	. "github.com/mmcloughlin/avo/build"
	. "github.com/mmcloughlin/avo/operand"
	. "github.com/mmcloughlin/avo/reg"
)

// The q8 products: packed groups as in matrix.go. A stored byte is code+128; XOR 0x80 makes it the signed code w. VPMADDUBSW
// wants one unsigned factor: |w| (at most 128) times sign(x, w), whose pairs sum to at most 128·127·2 = 32512, which an
// int16 holds; VPMADDWD with ones adds two pairs into the int32 of an output.

const (
	blockOutputs  = 32
	groupQuads    = 16
	quadBytes     = 128
	scaleBytes    = 64
	prefetchAhead = 2048 // bytes; decode is bound by memory, FACTS §3
)

func ones16() Mem    { return repeat32("ones16", 0x00010001) }
func signBytes() Mem { return repeat32("signBytes", 0x80808080) }

func loadYMM(m Mem) VecVirtual {
	r := YMM()
	VMOVDQU(m, r)
	return r
}

func prefetch(weights Register, ahead, bytes int) {
	for line := 0; line < bytes; line += 64 {
		PREFETCHT0(Mem{Base: weights, Disp: ahead + line})
	}
}

// q8Loop emits a group loop around the body: for each group, quads is 16, or what the last group has. The weights' register
// is at the group's scales when body runs, which must leave it behind the group's last quad. finish runs once, at the end.
func q8Loop(groups, lastQuads, quads Register, body, finish func()) {
	Label("group")
	MOVQ(U32(groupQuads), quads)
	CMPQ(groups, Imm(1))
	CMOVQEQ(lastQuads, quads)
	body()
	DECQ(groups)
	JNZ(LabelRef("group"))
	finish()
	VZEROUPPER()
	RET()
}

// weightScales stores the 8 bfloat16 scales at m as float32.
func weightScales(m Mem) VecVirtual {
	s := YMM()
	VPMOVZXWD(m, s)
	VPSLLD(Imm(16), s, s)
	return s
}

// q8Signature is the one of all q8 kernels.
func q8Signature(rows int) string {
	s := "func(acc *float32"
	if rows > 1 {
		s += ", stride int"
	}
	s += ", weights *byte"
	for r := range rows {
		s += fmt.Sprintf(", codes%d *int8, scales%d *float32", r, r)
	}
	return s + ", groups, lastQuads int)"
}

func q8Start(rows int, word string) {
	TEXT(fmt.Sprintf("q8Rows%dAVX2", rows), NOSPLIT, q8Signature(rows))
	Doc(fmt.Sprintf("q8Rows%dAVX2 adds the products of %s with one block of packed weights to acc: 32 outputs per row, rows stride", rows, word),
		"bytes apart, groups whole groups of which the last one has lastQuads quads.")
	Pragma("noescape")
}

func q8OneRow() {
	q8Start(1, "one row")
	acc := Load(Param("acc"), GP64())
	weights := Load(Param("weights"), GP64())
	codes := Load(Param("codes0"), GP64())
	scales := Load(Param("scales0"), GP64())
	groups := Load(Param("groups"), GP64())
	lastQuads := Load(Param("lastQuads"), GP64())
	quads, start := GP64(), GP64()

	ones, sign := loadYMM(ones16()), loadYMM(signBytes())
	var sums, dots [4]VecVirtual
	for v := range sums {
		sums[v], dots[v] = loadYMM(Mem{Base: acc, Disp: 32 * v}), YMM()
	}
	quad := func(disp, codeDisp int) {
		x := YMM()
		VPBROADCASTD(Mem{Base: codes, Disp: codeDisp}, x)
		for v := range dots {
			w, product := YMM(), YMM()
			VPXOR(Mem{Base: weights, Disp: disp + 32*v}, sign, w)
			VPSIGNB(w, x, product)
			VPABSB(w, w)
			VPMADDUBSW(product, w, product)
			VPMADDWD(ones, product, product)
			VPADDD(product, dots[v], dots[v])
		}
		prefetch(weights, disp+prefetchAhead, quadBytes)
	}
	q8Loop(groups, lastQuads, quads, func() {
		MOVQ(weights, start)
		ADDQ(Imm(scaleBytes), weights)
		for v := range dots {
			VPXOR(dots[v], dots[v], dots[v])
		}
		prefetch(weights, prefetchAhead-scaleBytes, scaleBytes)
		Label("four")
		CMPQ(quads, Imm(4))
		JLT(LabelRef("rest"))
		for q := range 4 {
			quad(q*quadBytes, 4*q)
		}
		ADDQ(U32(4*quadBytes), weights)
		ADDQ(Imm(16), codes)
		SUBQ(Imm(4), quads)
		JMP(LabelRef("four"))
		Label("rest")
		TESTQ(quads, quads)
		JZ(LabelRef("scale"))
		Label("one")
		quad(0, 0)
		ADDQ(U32(quadBytes), weights)
		ADDQ(Imm(4), codes)
		DECQ(quads)
		JNZ(LabelRef("one"))
		Label("scale")
		x := YMM()
		VBROADCASTSS(Mem{Base: scales}, x)
		ADDQ(Imm(4), scales)
		for v := range dots {
			scale := weightScales(Mem{Base: start, Disp: 16 * v})
			VMULPS(x, scale, scale)
			VCVTDQ2PS(dots[v], dots[v])
			VFMADD231PS(dots[v], scale, sums[v])
		}
	}, func() {
		for v := range sums {
			VMOVUPS(sums[v], Mem{Base: acc, Disp: 32 * v})
		}
	})
}

// q8TwoRows keeps 2 x 32 integer sums in registers, and the float sums in memory.
func q8TwoRows() {
	q8Start(2, "two rows")
	acc := Load(Param("acc"), GP64())
	stride := Load(Param("stride"), GP64())
	weights := Load(Param("weights"), GP64())
	var codes, scales [2]Register
	for r := range codes {
		codes[r] = Load(Param(fmt.Sprintf("codes%d", r)), GP64())
		scales[r] = Load(Param(fmt.Sprintf("scales%d", r)), GP64())
	}
	groups := Load(Param("groups"), GP64())
	lastQuads := Load(Param("lastQuads"), GP64())
	quads, start := GP64(), GP64()

	ones, sign := loadYMM(ones16()), loadYMM(signBytes())
	var dots [2][4]VecVirtual
	for r := range dots {
		for v := range dots[r] {
			dots[r][v] = YMM()
		}
	}
	quad := func(disp, codeDisp int) {
		var x [2]VecVirtual
		for r := range x {
			x[r] = YMM()
			VPBROADCASTD(Mem{Base: codes[r], Disp: codeDisp}, x[r])
		}
		for v := range 4 {
			w, size := YMM(), YMM()
			VPXOR(Mem{Base: weights, Disp: disp + 32*v}, sign, w)
			VPABSB(w, size)
			for r := range dots {
				addProducts(w, size, x[r], ones, dots[r][v])
			}
		}
		prefetch(weights, disp+prefetchAhead, quadBytes)
	}
	q8Loop(groups, lastQuads, quads, func() {
		MOVQ(weights, start)
		ADDQ(Imm(scaleBytes), weights)
		for r := range dots {
			for _, dot := range dots[r] {
				VPXOR(dot, dot, dot)
			}
		}
		prefetch(weights, prefetchAhead-scaleBytes, scaleBytes)
		Label("two")
		CMPQ(quads, Imm(2))
		JLT(LabelRef("rest"))
		quad(0, 0)
		quad(quadBytes, 4)
		ADDQ(U32(2*quadBytes), weights)
		ADDQ(Imm(8), codes[0])
		ADDQ(Imm(8), codes[1])
		SUBQ(Imm(2), quads)
		JMP(LabelRef("two"))
		Label("rest")
		TESTQ(quads, quads)
		JZ(LabelRef("scale"))
		quad(0, 0)
		ADDQ(U32(quadBytes), weights)
		ADDQ(Imm(4), codes[0])
		ADDQ(Imm(4), codes[1])
		Label("scale")
		for r := range scales {
			for v := range 4 {
				target := Mem{Base: acc, Disp: 32 * v}
				if r == 1 {
					target.Index, target.Scale = stride, 1
				}
				addScaledDots(dots[r][v], weightScales(Mem{Base: start, Disp: 16 * v}), Mem{Base: scales[r]}, target)
			}
			ADDQ(Imm(4), scales[r])
		}
	}, func() {})
}

// addProducts adds the products of one vector of weights w, of absolute value size, with four codes x to dots.
func addProducts(w, size, x, ones, dots VecVirtual) {
	product := YMM()
	VPSIGNB(w, x, product)
	VPMADDUBSW(product, size, product)
	VPMADDWD(ones, product, product)
	VPADDD(product, dots, dots)
}

// addScaledDots is target = FMA(float32(dots), x·weightScale, target).
func addScaledDots(dots, weightScale VecVirtual, x, target Mem) {
	scale, sum := YMM(), YMM()
	VBROADCASTSS(x, scale)
	VMULPS(scale, weightScale, scale)
	VCVTDQ2PS(dots, dots)
	VMOVUPS(target, sum)
	VFMADD231PS(dots, scale, sum)
	VMOVUPS(sum, target)
}

// q8FourRows walks each group twice, for 16 outputs each time: 4 x 16 integer sums fit the registers.
func q8FourRows() {
	q8Start(4, "four rows")
	acc := Load(Param("acc"), GP64())
	stride := Load(Param("stride"), GP64())
	weights := Load(Param("weights"), GP64())
	var codes [4]Register
	for r := range codes {
		codes[r] = Load(Param(fmt.Sprintf("codes%d", r)), GP64())
	}
	groups := Load(Param("groups"), GP64())
	lastQuads := Load(Param("lastQuads"), GP64())
	quads, start := GP64(), GP64()
	scaleOffset := GP64()
	XORQ(scaleOffset, scaleOffset)

	ones, sign := loadYMM(ones16()), loadYMM(signBytes())
	var dots [4][2]VecVirtual
	for r := range dots {
		for v := range dots[r] {
			dots[r][v] = YMM()
		}
	}
	offset := GP64() // of the quad inside the group's codes, in quads
	half := func(h int) {
		MOVQ(start, weights)
		XORQ(offset, offset)
		for r := range dots {
			for _, dot := range dots[r] {
				VPXOR(dot, dot, dot)
			}
		}
		label := fmt.Sprintf("half%d", h)
		Label(label)
		var w, size [2]VecVirtual
		for v := range w {
			w[v], size[v] = YMM(), YMM()
			VPXOR(Mem{Base: weights, Disp: scaleBytes + 64*h + 32*v}, sign, w[v])
			VPABSB(w[v], size[v])
		}
		for r := range dots {
			x := YMM()
			VPBROADCASTD(Mem{Base: codes[r], Index: offset, Scale: 4}, x)
			for v := range w {
				addProducts(w[v], size[v], x, ones, dots[r][v])
			}
		}
		PREFETCHT0(Mem{Base: weights, Disp: scaleBytes + 64*h + prefetchAhead})
		ADDQ(U32(quadBytes), weights)
		INCQ(offset)
		CMPQ(offset, quads)
		JNE(LabelRef(label))

		target := GP64()
		MOVQ(acc, target)
		for r := range dots {
			pointer := Load(Param(fmt.Sprintf("scales%d", r)), GP64())
			for v := range 2 {
				addScaledDots(dots[r][v], weightScales(Mem{Base: start, Disp: 32*h + 16*v}),
					Mem{Base: pointer, Index: scaleOffset, Scale: 4}, Mem{Base: target, Disp: 64*h + 32*v})
			}
			if r < 3 {
				ADDQ(stride, target)
			}
		}
	}
	q8Loop(groups, lastQuads, quads, func() {
		MOVQ(weights, start)
		half(0)
		half(1)
		ADDQ(Imm(scaleBytes), weights)
		for r := range codes {
			LEAQ(Mem{Base: codes[r], Index: offset, Scale: 4}, codes[r])
		}
		INCQ(scaleOffset)
	}, func() {})
}
