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
//
// mxfp4 differs by what is multiplied (multiply_mxfp4.go), and its scales are those of two groups of 32, "halves", side by side.

const (
	q4GroupQuads = 8   // of 32 columns
	q4PairBytes  = 128 // two quads
	q4HalfBytes  = q4GroupQuads / 2 * q4PairBytes
)

// fourBits is what differs between the formats of 4 bits.
type fourBits struct {
	name   string
	halves int                                 // of a group, each of 32 columns
	groups []string                            // documentation: "apart, groups ..."
	offset func() Mem                          // bytes: what is added to the weights that are multiplied
	table  func() Mem                          // 32 bytes: twice 16 values of the codes; nil if they are the codes
	scales func(m Mem, half, v int) VecVirtual // of the group at m: those of outputs 8v to 8v+7, as float32
}

var q4 = fourBits{"q4", 1, []string{"apart, groups groups of 32 columns of which the last one has lastQuads quads. The first is the first half of a group of", "activations."},
	eightBytes, nil, func(m Mem, _, v int) VecVirtual { return weightScales(m.Offset(16 * v)) }}

func (f fourBits) groupBytes() int { return scaleBytes + f.halves*q4HalfBytes }

func eightBytes() Mem { return repeat32("eightBytes", 0x08080808) }
func nibbles() Mem    { return repeat32("nibbles", 0x0f0f0f0f) }

// q4Kernel is what the kernels of 1, 2 and 4 rows share.
type q4Kernel struct {
	fourBits
	rows          int
	acc, stride   Register
	weights       Register
	codes, scales []Register
	groups        Register
	lastQuads     Register
	index         Register // twice the index of the activation scale
	mask, values  VecVirtual
}

func q4Start(f fourBits, rows int, word string) *q4Kernel {
	name := fmt.Sprintf("%sRows%dAVX2", f.name, rows)
	TEXT(name, NOSPLIT, q8Signature(rows))
	Doc(append([]string{fmt.Sprintf("%s adds the products of %s with one block of packed weights to acc: 32 outputs per row, rows stride bytes", name, word)},
		f.groups...)...)
	Pragma("noescape")
	k := &q4Kernel{fourBits: f, rows: rows, acc: pointer("acc"), weights: pointer("weights"), groups: pointer("groups"), lastQuads: pointer("lastQuads")}
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
	if f.table != nil {
		k.values = loadYMM(f.table())
	}
	return k
}

// scale is the place of the activation scale of a row in the current half.
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
	DECQ(k.groups)
	JNZ(LabelRef("group"))
}

// correction gives 8·(x0+x1) and 8·(x2+x3), summed over the 8 quads of a whole half, in each pair of int16.
func (k *q4Kernel) correction(r, half int) VecVirtual {
	c, high, wide := YMM(), XMM(), YMM()
	VMOVDQU(k.offset(), c)
	VPMADDUBSW(Mem{Base: k.codes[r], Disp: 32 * half}, c, c)
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

// codesOf gives the codes, or their values, of the lower (0) or upper (1) quad of a pair.
func (k *q4Kernel) codesOf(m Mem, nibble int) VecVirtual {
	w := YMM()
	if nibble == 0 {
		VPAND(m, k.mask, w)
	} else {
		VMOVDQU(m, w)
		VPSRLW(Imm(4), w, w)
		VPAND(k.mask, w, w)
	}
	if k.table != nil {
		VPSHUFB(w, k.values, w)
	}
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
			VMOVDQU(k.offset(), c)
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
func q4FewRows(f fourBits, rows int, word string) {
	k := q4Start(f, rows, word)
	dots := newDots(rows, 4)
	var sums [4]VecVirtual
	if rows == 1 {
		for v := range sums {
			sums[v] = loadYMM(Mem{Base: k.acc, Disp: 32 * v})
		}
	}
	code := func(q int) func(r int) Mem { return func(r int) Mem { return Mem{Base: k.codes[r], Disp: 4 * q} } }
	clear := func() {
		for r := range dots {
			for _, dot := range dots[r] {
				VPXOR(dot, dot, dot)
			}
		}
	}
	start, quads := GP64(), GP64()
	label := func(name string, half int) string { return fmt.Sprintf("%s%d", name, half) }

	Label("group")
	MOVQ(k.weights, start)
	prefetch(k.weights, prefetchAhead, scaleBytes)
	for h := range f.halves {
		CMPQ(k.groups, Imm(1))
		JNE(LabelRef(label("whole", h)))
		if h > 0 {
			CMPQ(k.lastQuads, Imm(uint64(h*q4GroupQuads)))
			JLE(LabelRef("end"))
		}
		CMPQ(k.lastQuads, Imm(uint64((h+1)*q4GroupQuads)))
		JL(LabelRef(label("part", h)))
		Label(label("whole", h))
		for r := range dots {
			c := k.correction(r, h)
			for _, dot := range dots[r] {
				VPXOR(dot, dot, dot)
				VPSUBW(c, dot, dot)
			}
		}
		for pair := range q4GroupQuads / 2 {
			place, q := scaleBytes+h*q4HalfBytes+pair*q4PairBytes, h*q4GroupQuads+2*pair
			k.quad(dots, Mem{Base: k.weights, Disp: place}, 0, code(q), false)
			k.quad(dots, Mem{Base: k.weights, Disp: place}, 1, code(q+1), false)
			prefetch(k.weights, prefetchAhead+place, q4PairBytes)
		}
		Label(label("scale", h))
		for r := range rows {
			place := k.scale(r)
			widenDots(dots[r])
			for v, dot := range dots[r] {
				target := Mem{Base: k.acc, Disp: 32 * v}
				if r == 1 {
					target.Index, target.Scale = k.stride, 1
				}
				if rows > 1 {
					addScaledDots(dot, f.scales(Mem{Base: start}, h, v), place, target)
					continue
				}
				x, scale := YMM(), f.scales(Mem{Base: start}, h, v)
				VBROADCASTSS(place, x)
				VMULPS(x, scale, scale)
				VCVTDQ2PS(dot, dot)
				VFMADD231PS(dot, scale, sums[v])
			}
		}
		INCQ(k.index)
	}
	ADDQ(U32(f.groupBytes()), k.weights)
	for r := range rows {
		ADDQ(Imm(uint64(4*q4GroupQuads*f.halves)), k.codes[r])
	}
	k.end()
	Label("end")
	if rows == 1 {
		for v := range sums {
			VMOVUPS(sums[v], Mem{Base: k.acc, Disp: 32 * v})
		}
	}
	VZEROUPPER()
	RET()

	for h := range f.halves {
		Label(label("part", h))
		MOVQ(k.lastQuads, quads)
		if h > 0 {
			SUBQ(Imm(uint64(h*q4GroupQuads)), quads)
		}
		clear()
		Label(label("pair", h))
		k.quad(dots, Mem{Base: k.weights, Disp: scaleBytes + h*q4HalfBytes}, 0, code(h*q4GroupQuads), true)
		DECQ(quads)
		JZ(LabelRef(label("scale", h)))
		k.quad(dots, Mem{Base: k.weights, Disp: scaleBytes + h*q4HalfBytes}, 1, code(h*q4GroupQuads+1), true)
		ADDQ(U32(q4PairBytes), k.weights)
		for r := range rows {
			ADDQ(Imm(8), k.codes[r])
		}
		DECQ(quads)
		JNZ(LabelRef(label("pair", h)))
		JMP(LabelRef(label("scale", h)))
	}
}

// q4FourRows walks each half twice, for 16 outputs each time; the corrections are kept in memory meanwhile.
func q4FourRows(f fourBits) {
	k := q4Start(f, 4, "four rows")
	corrections := AllocLocal(4 * 32)
	dots := newDots(4, 2)
	start, quads, offset := GP64(), GP64(), GP64()
	code := func(q int) func(r int) Mem {
		return func(r int) Mem { return Mem{Base: k.codes[r], Disp: 4 * q, Index: offset, Scale: 4} }
	}

	Label("group")
	MOVQ(k.weights, start)
	for half := range f.halves {
		label := func(name string, h int) string { return fmt.Sprintf("%s%d_%d", name, half, h) }
		begin := half * q4GroupQuads
		MOVQ(U32(q4GroupQuads), quads)
		CMPQ(k.groups, Imm(1))
		if f.halves == 1 {
			CMOVQEQ(k.lastQuads, quads)
		} else {
			JNE(LabelRef(label("quads", 0)))
			CMPQ(k.lastQuads, Imm(uint64(begin)))
			JLE(LabelRef("end"))
			CMPQ(k.lastQuads, Imm(uint64(begin+q4GroupQuads)))
			JGE(LabelRef(label("quads", 0)))
			MOVQ(k.lastQuads, quads)
			if half > 0 {
				SUBQ(Imm(uint64(begin)), quads)
			}
			Label(label("quads", 0))
		}
		CMPQ(quads, Imm(q4GroupQuads))
		JNE(LabelRef(label("corrected", 0)))
		for r := range 4 {
			VMOVDQU(k.correction(r, half), corrections.Offset(32*r))
		}
		Label(label("corrected", 0))
		for h := range 2 {
			part, scaled, loop := label("part", h), label("scale", h), label("pair", h)
			pairs := scaleBytes + half*q4HalfBytes + 64*h
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
				place := pairs + pair*q4PairBytes
				k.quad(dots, Mem{Base: start, Disp: place}, 0, code(begin+2*pair), false)
				k.quad(dots, Mem{Base: start, Disp: place}, 1, code(begin+2*pair+1), false)
				PREFETCHT0(Mem{Base: start, Disp: place + prefetchAhead})
			}
			JMP(LabelRef(scaled))

			Label(part)
			left := GP64()
			MOVQ(quads, left)
			Label(loop)
			k.quad(dots, Mem{Base: k.weights, Disp: pairs}, 0, code(begin), true)
			DECQ(left)
			JZ(LabelRef(scaled))
			k.quad(dots, Mem{Base: k.weights, Disp: pairs}, 1, code(begin+1), true)
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
					addScaledDots(dot, f.scales(Mem{Base: start}, half, 2*h+v), place, Mem{Base: target, Disp: 64*h + 32*v})
				}
				if r < 3 {
					ADDQ(k.stride, target)
				}
			}
		}
		INCQ(k.index)
	}
	LEAQ(Mem{Base: start, Disp: f.groupBytes()}, k.weights)
	for r := range k.codes {
		ADDQ(Imm(uint64(4*q4GroupQuads*f.halves)), k.codes[r])
	}
	k.end()
	Label("end")
	VZEROUPPER()
	RET()
}
