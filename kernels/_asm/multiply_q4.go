package main

import (
	"fmt"

	. "github.com/mmcloughlin/avo/build"
	. "github.com/mmcloughlin/avo/operand"
	. "github.com/mmcloughlin/avo/reg"
)

// The q4 products: packed groups as in matrix.go. VPMADDUBSW multiplies the stored codes u = w+8, unsigned, with the activations'
// codes; two products of at most 15·127 in each of 8 quads stay within an int16 (30480), so a group of 32 columns needs one
// widening to int32. The sums start at -8·x, in the same int16 (they may wrap on the way: the end does not).

const (
	q4GroupQuads = 8
	q4PairBytes  = 128 // two quads
	q4GroupBytes = scaleBytes + q4GroupQuads/2*q4PairBytes
)

func eightBytes() Mem { return repeat32("eightBytes", 0x08080808) }
func nibbles() Mem    { return repeat32("nibbles", 0x0f0f0f0f) }

// q4Kernel is what the kernels of 1, 2 and 4 rows share.
type q4Kernel struct {
	rows          int
	acc, stride   Register
	weights       Register
	codes, scales []Register
	groups        Register
	lastQuads     Register
	index         Register // twice the index of the activation scale
	mask          VecVirtual
}

func q4Start(rows int, word string) *q4Kernel {
	name := fmt.Sprintf("q4Rows%dAVX2", rows)
	TEXT(name, NOSPLIT, q8Signature(rows))
	Doc(fmt.Sprintf("%s adds the products of %s with one block of packed weights to acc: 32 outputs per row, rows stride bytes", name, word),
		"apart, groups groups of 32 columns of which the last one has lastQuads quads. The first is the first half of a group of",
		"activations.")
	Pragma("noescape")
	k := &q4Kernel{rows: rows, acc: pointer("acc"), weights: pointer("weights"), groups: pointer("groups"), lastQuads: pointer("lastQuads")}
	if rows > 1 {
		k.stride = pointer("stride")
	}
	for r := range rows {
		k.codes = append(k.codes, pointer(fmt.Sprintf("codes%d", r)))
		if rows < 4 {
			k.scales = append(k.scales, pointer(fmt.Sprintf("scales%d", r)))
		}
	}
	k.index = GP64()
	XORQ(k.index, k.index)
	k.mask = loadYMM(nibbles())
	return k
}

// scale is the place of the activation scale of a row in the current group.
func (k *q4Kernel) scale(r int) Mem {
	base, half := Register(nil), GP64()
	if k.rows < 4 {
		base = k.scales[r]
	} else {
		base = pointer(fmt.Sprintf("scales%d", r))
	}
	MOVQ(k.index, half)
	SHRQ(Imm(1), half)
	return Mem{Base: base, Index: half, Scale: 4}
}

// end emits the end of the loop over groups.
func (k *q4Kernel) end() {
	INCQ(k.index)
	DECQ(k.groups)
	JNZ(LabelRef("group"))
}

// correction gives 8·(x0+x1) and 8·(x2+x3), summed over the 8 quads of a whole group, in each pair of int16.
func (k *q4Kernel) correction(r int) VecVirtual {
	c, high, wide := YMM(), XMM(), YMM()
	VMOVDQU(eightBytes(), c)
	VPMADDUBSW(Mem{Base: k.codes[r]}, c, c)
	low := c.AsX()
	VEXTRACTI128(Imm(1), c, high)
	VPADDW(high, low, low)
	VPSHUFD(Imm(0x4e), low, high)
	VPADDW(high, low, low)
	VPSHUFD(Imm(0xb1), low, high)
	VPADDW(high, low, low)
	VPBROADCASTD(low, wide)
	return wide
}

// codesOf gives the codes of the lower (0) or upper (1) quad of a pair.
func (k *q4Kernel) codesOf(m Mem, nibble int) VecVirtual {
	w := YMM()
	if nibble == 0 {
		VPAND(m, k.mask, w)
		return w
	}
	VMOVDQU(m, w)
	VPSRLW(Imm(4), w, w)
	VPAND(k.mask, w, w)
	return w
}

// quad adds the products of one quad of each row with count vectors of outputs to dots. corrected says that the sums don't have
// the correction yet.
func (k *q4Kernel) quad(dots [][]VecVirtual, weights Mem, nibble int, code func(r int) Mem, corrected bool) {
	w := make([]VecVirtual, len(dots[0]))
	if k.rows == 4 {
		for v := range w {
			w[v] = k.codesOf(weights.Offset(32*v), nibble)
		}
	}
	x := make([]VecVirtual, k.rows)
	for r := range x {
		x[r] = YMM()
		VPBROADCASTD(code(r), x[r])
		if corrected {
			c := YMM()
			VMOVDQU(eightBytes(), c)
			VPMADDUBSW(x[r], c, c)
			for _, dot := range dots[r] {
				VPSUBW(c, dot, dot)
			}
		}
		if k.rows == 4 {
			k.add(dots[r], w, x[r])
		}
	}
	if k.rows == 4 {
		return
	}
	for v := range dots[0] {
		w := k.codesOf(weights.Offset(32*v), nibble)
		for r := range x {
			k.add(dots[r][v:v+1], []VecVirtual{w}, x[r])
		}
	}
}

func (k *q4Kernel) add(dots, w []VecVirtual, x VecVirtual) {
	for v := range dots {
		product := YMM()
		VPMADDUBSW(x, w[v], product)
		VPADDW(product, dots[v], dots[v])
	}
}

// widen makes the int32 sums of dots.
func widenDots(dots []VecVirtual) {
	for _, dot := range dots {
		VPMADDWD(ones16(), dot, dot)
	}
}

func newDots(rows, vectors int) [][]VecVirtual {
	dots := make([][]VecVirtual, rows)
	for r := range dots {
		for range vectors {
			dots[r] = append(dots[r], YMM())
		}
	}
	return dots
}

// q4FewRows keeps 32 integer sums for each of one or two rows in registers, and for one row the float sums too.
func q4FewRows(rows int, word string) {
	k := q4Start(rows, word)
	dots := newDots(rows, 4)
	var sums [4]VecVirtual
	if rows == 1 {
		for v := range sums {
			sums[v] = loadYMM(Mem{Base: k.acc, Disp: 32 * v})
		}
	}
	code := func(q int) func(r int) Mem { return func(r int) Mem { return Mem{Base: k.codes[r], Disp: 4 * q} } }
	start, quads := GP64(), GP64()

	Label("group")
	MOVQ(k.weights, start)
	prefetch(k.weights, prefetchAhead, scaleBytes)
	CMPQ(k.groups, Imm(1))
	JNE(LabelRef("whole"))
	CMPQ(k.lastQuads, Imm(q4GroupQuads))
	JNE(LabelRef("part"))
	Label("whole")
	for r := range dots {
		c := k.correction(r)
		for _, dot := range dots[r] {
			VPXOR(dot, dot, dot)
			VPSUBW(c, dot, dot)
		}
	}
	for pair := range q4GroupQuads / 2 {
		place := scaleBytes + pair*q4PairBytes
		k.quad(dots, Mem{Base: k.weights, Disp: place}, 0, code(2*pair), false)
		k.quad(dots, Mem{Base: k.weights, Disp: place}, 1, code(2*pair+1), false)
		prefetch(k.weights, prefetchAhead+place, q4PairBytes)
	}
	ADDQ(U32(q4GroupBytes), k.weights)
	for r := range rows {
		ADDQ(Imm(4*q4GroupQuads), k.codes[r])
	}
	Label("scale")
	for r := range rows {
		place := k.scale(r)
		widenDots(dots[r])
		for v, dot := range dots[r] {
			target := Mem{Base: k.acc, Disp: 32 * v}
			if r == 1 {
				target.Index, target.Scale = k.stride, 1
			}
			if rows > 1 {
				addScaledDots(dot, weightScales(Mem{Base: start, Disp: 16 * v}), place, target)
				continue
			}
			x, scale := YMM(), weightScales(Mem{Base: start, Disp: 16 * v})
			VBROADCASTSS(place, x)
			VMULPS(x, scale, scale)
			VCVTDQ2PS(dot, dot)
			VFMADD231PS(dot, scale, sums[v])
		}
	}
	k.end()
	if rows == 1 {
		for v := range sums {
			VMOVUPS(sums[v], Mem{Base: k.acc, Disp: 32 * v})
		}
	}
	VZEROUPPER()
	RET()

	Label("part")
	MOVQ(k.lastQuads, quads)
	ADDQ(Imm(scaleBytes), k.weights)
	for r := range dots {
		for _, dot := range dots[r] {
			VPXOR(dot, dot, dot)
		}
	}
	Label("pair")
	k.quad(dots, Mem{Base: k.weights}, 0, code(0), true)
	DECQ(quads)
	JZ(LabelRef("scale"))
	k.quad(dots, Mem{Base: k.weights}, 1, code(1), true)
	ADDQ(U32(q4PairBytes), k.weights)
	for r := range rows {
		ADDQ(Imm(8), k.codes[r])
	}
	DECQ(quads)
	JNZ(LabelRef("pair"))
	JMP(LabelRef("scale"))
}

// q4FourRows walks each group twice, for 16 outputs each time; the corrections are kept in memory meanwhile.
func q4FourRows() {
	k := q4Start(4, "four rows")
	corrections := AllocLocal(4 * 32)
	dots := newDots(4, 2)
	start, quads, offset := GP64(), GP64(), GP64()
	code := func(q int) func(r int) Mem {
		return func(r int) Mem { return Mem{Base: k.codes[r], Disp: 4 * q, Index: offset, Scale: 4} }
	}

	Label("group")
	MOVQ(k.weights, start)
	MOVQ(U32(q4GroupQuads), quads)
	CMPQ(k.groups, Imm(1))
	CMOVQEQ(k.lastQuads, quads)
	CMPQ(quads, Imm(q4GroupQuads))
	JNE(LabelRef("corrected"))
	for r := range 4 {
		VMOVDQU(k.correction(r), corrections.Offset(32*r))
	}
	Label("corrected")
	for h := range 2 {
		part, scaled, loop := fmt.Sprintf("part%d", h), fmt.Sprintf("scale%d", h), fmt.Sprintf("pair%d", h)
		XORQ(offset, offset)
		MOVQ(start, k.weights)
		for r := range dots {
			for _, dot := range dots[r] {
				VPXOR(dot, dot, dot)
			}
		}
		CMPQ(quads, Imm(q4GroupQuads))
		JNE(LabelRef(part))
		for r := range dots {
			for _, dot := range dots[r] {
				VPSUBW(corrections.Offset(32*r), dot, dot)
			}
		}
		for pair := range q4GroupQuads / 2 {
			place := scaleBytes + pair*q4PairBytes + 64*h
			k.quad(dots, Mem{Base: start, Disp: place}, 0, code(2*pair), false)
			k.quad(dots, Mem{Base: start, Disp: place}, 1, code(2*pair+1), false)
			PREFETCHT0(Mem{Base: start, Disp: place + prefetchAhead})
		}
		JMP(LabelRef(scaled))

		Label(part)
		left := GP64()
		MOVQ(quads, left)
		Label(loop)
		k.quad(dots, Mem{Base: k.weights, Disp: scaleBytes + 64*h}, 0, code(0), true)
		DECQ(left)
		JZ(LabelRef(scaled))
		k.quad(dots, Mem{Base: k.weights, Disp: scaleBytes + 64*h}, 1, code(1), true)
		ADDQ(U32(q4PairBytes), k.weights)
		ADDQ(Imm(2), offset)
		DECQ(left)
		JNZ(LabelRef(loop))

		Label(scaled)
		target := GP64()
		MOVQ(k.acc, target)
		for r := range dots {
			place := k.scale(r)
			widenDots(dots[r])
			for v, dot := range dots[r] {
				addScaledDots(dot, weightScales(Mem{Base: start, Disp: 32*h + 16*v}), place, Mem{Base: target, Disp: 64*h + 32*v})
			}
			if r < 3 {
				ADDQ(k.stride, target)
			}
		}
	}
	LEAQ(Mem{Base: start, Disp: q4GroupBytes}, k.weights)
	for r := range k.codes {
		ADDQ(Imm(4*q4GroupQuads), k.codes[r])
	}
	k.end()
	VZEROUPPER()
	RET()
}
