package main

import (
	"fmt"

	. "github.com/mmcloughlin/avo/build"
	. "github.com/mmcloughlin/avo/operand"
	. "github.com/mmcloughlin/avo/reg"
)

// The q8 and q4 products: packed groups as in matrix.go. VPDPBUSD adds 4 products of unsigned weights (code+128, code+8) and signed
// activations to each of 8 int32. Sums that start at -128·Σx (-8·Σx) of the group need no other correction.

// format is how a kernel reads a group of weights.
type format struct {
	name       string
	quads      int    // of a group
	groupBytes int    // of a whole one
	offset     uint32 // of the stored codes, in each of four bytes
	quadsAside int    // quads that lie in the same 128 bytes
	// load gives vector v of quad i of those that begin at m.
	load func(m Mem, i, v int) VecVirtual
}

var q8 = format{"q8", 16, scaleBytes + 16*quadBytes, 0x80808080, 1, func(m Mem, i, v int) VecVirtual {
	w := YMM()
	VMOVDQU(m.Offset(i*quadBytes+32*v), w)
	return w
}}

// q4 quads lie in pairs: the first one's codes in the lower four bits of each byte.
var q4 = format{"q4", 8, scaleBytes + 4*quadBytes, 0x08080808, 2, func(m Mem, i, v int) VecVirtual {
	w := YMM()
	VMOVDQU(m.Offset(i/2*quadBytes+32*v), w)
	if i%2 == 1 {
		VPSRLW(Imm(4), w, w)
	}
	VPAND(repeat32("nibbles", 0x0f0f0f0f), w, w)
	return w
}}

// multiply emits the kernel of a format for a number of rows. Float sums stay in acc: they change once a group.
func multiply(f format, rows int) {
	name := fmt.Sprintf("%sRows%dAVXVNNI", f.name, rows)
	function(name, "func(acc *float32, stride int, weights *byte, codes **int8, column int, terms *uint64, groups, lastQuads int)",
		name+fmt.Sprintf(" adds the products of rows (%d) with one block of packed weights to acc: 32 outputs per row, rows stride bytes", rows),
		"apart. codes are the rows' pointers, of which groups are read from column on; terms are [groups][rows]. The last of the",
		"groups has lastQuads quads.")
	array := pointer("codes")
	codes := make([]Register, rows)
	for r := range codes {
		codes[r] = GP64()
		MOVQ(Mem{Base: array, Disp: 8 * r}, codes[r])
	}
	weights, offset, terms, groups := pointer("weights"), pointer("column"), pointer("terms"), pointer("groups")
	vectors := blockVectors
	if rows > wholeRows {
		vectors /= 2
	}
	dots := make([][]VecVirtual, rows)
	for r := range dots {
		for range vectors {
			dots[r] = append(dots[r], YMM())
		}
	}
	// quad adds the products of quad i of those at m, whose codes are read from offset on, from vector first on.
	quad := func(m Mem, offset Register, i, first int) {
		code := func(r int) VecVirtual {
			x := YMM()
			VPBROADCASTD(Mem{Base: codes[r], Index: offset, Scale: 1, Disp: 4 * i}, x)
			return x
		}
		if vectors < blockVectors {
			w := make([]VecVirtual, vectors)
			for v := range w {
				w[v] = f.load(m, i, first+v)
			}
			for r := range dots {
				x := code(r)
				for v := range w {
					VPDPBUSD(x, w[v], dots[r][v])
				}
			}
			return
		}
		x := make([]VecVirtual, rows)
		for r := range x {
			x[r] = code(r)
		}
		for v := range vectors {
			w := f.load(m, i, v)
			for r := range x {
				VPDPBUSD(x[r], w, dots[r][v])
			}
		}
	}

	Label("group")
	for first := 0; first < blockVectors; first += vectors {
		label := func(s string) string { return fmt.Sprintf("%s%d", s, first) }
		for r := range dots {
			for _, dot := range dots[r] {
				VPBROADCASTD(Mem{Base: terms, Disp: termBytes*r + 4}, dot)
			}
		}
		CMPQ(groups, Imm(1))
		JNE(LabelRef(label("whole")))
		quads := Load(Param("lastQuads"), GP64())
		CMPQ(quads, Imm(uint64(f.quads)))
		JE(LabelRef(label("whole")))

		at, here := GP64(), GP64() // a shorter group, at the end
		MOVQ(weights, at)
		MOVQ(offset, here)
		Label(label("some"))
		quad(Mem{Base: at, Disp: scaleBytes}, here, 0, first)
		if f.quadsAside == 2 {
			DECQ(quads)
			JZ(LabelRef(label("scale")))
			quad(Mem{Base: at, Disp: scaleBytes}, here, 1, first)
		}
		ADDQ(U32(quadBytes), at)
		ADDQ(Imm(uint64(4*f.quadsAside)), here)
		DECQ(quads)
		JNZ(LabelRef(label("some")))
		JMP(LabelRef(label("scale")))

		Label(label("whole"))
		for i := range f.quads {
			quad(Mem{Base: weights, Disp: scaleBytes}, offset, i, first)
			if i%f.quadsAside == 0 {
				for line := first / 2; line < (first+vectors)/2; line++ {
					PREFETCHT0(Mem{Base: weights, Disp: prefetchAhead + scaleBytes + i/f.quadsAside*quadBytes + 64*line})
				}
			}
		}
		if first == 0 {
			PREFETCHT0(Mem{Base: weights, Disp: prefetchAhead})
		}

		Label(label("scale"))
		sum := sumPlaces(rows)
		for v := range vectors {
			scale := YMM()
			VPMOVZXWD(Mem{Base: weights, Disp: 16 * (first + v)}, scale)
			VPSLLD(Imm(16), scale, scale)
			for r := range dots {
				product, total := YMM(), YMM()
				VBROADCASTSS(Mem{Base: terms, Disp: termBytes * r}, product)
				VMULPS(scale, product, product)
				VCVTDQ2PS(dots[r][v], dots[r][v])
				place := sum(r, first+v)
				VMOVUPS(place, total)
				VFMADD231PS(product, dots[r][v], total)
				VMOVUPS(total, place)
			}
		}
	}
	ADDQ(U32(uint32(f.groupBytes)), weights)
	ADDQ(Imm(uint64(4*f.quads)), offset)
	ADDQ(Imm(uint64(termBytes*rows)), terms)
	DECQ(groups)
	JNZ(LabelRef("group"))
	finish()
}

// sumPlaces gives the places of 8 float sums.
func sumPlaces(rows int) func(r, v int) Mem {
	bases := []Register{pointer("acc")}
	var stride Register
	if rows > 1 {
		stride = pointer("stride")
	}
	if rows > 3 {
		next := GP64()
		LEAQ(Mem{Base: bases[0], Index: stride, Scale: 2}, next)
		ADDQ(stride, next)
		bases = append(bases, next)
	}
	return func(r, v int) Mem {
		m := Mem{Base: bases[r/3], Disp: 4 * vectorOutputs * v}
		if r%3 > 0 {
			m.Index, m.Scale = stride, uint8(r%3)
		}
		return m
	}
}

// terms emits the function for what products need to know of a row's groups.
func terms(f format) {
	name := f.name + "TermsAVXVNNI"
	function(name, "func(terms *uint64, stride int, codes *int8, scales *float32, groups int)",
		name+" stores the terms of one row's groups of weights, stride bytes apart; groups are whole ones of the activations.")
	terms, stride, codes, scales, groups := pointer("terms"), pointer("stride"), pointer("codes"), pointer("scales"), pointer("groups")
	offset, scale, bits := YMM(), GP32(), GP32()
	VMOVDQU(repeat32(f.name+"Offset", f.offset), offset)
	Label("group")
	MOVL(Mem{Base: scales}, scale)
	sum := YMM()
	for half := range 2 { // 32 of 64 codes
		x := YMM()
		VMOVDQU(Mem{Base: codes, Disp: 32 * half}, x)
		if half == 0 || f.quads == 8 {
			VPXOR(sum, sum, sum)
		}
		VPDPBUSD(x, offset, sum)
		if half == 0 && f.quads == 16 {
			continue
		}
		low, high := sum.AsX(), XMM()
		VEXTRACTI128(Imm(1), sum, high)
		VPADDD(high, low, low)
		for _, order := range []uint64{0x4e, 0xb1} {
			VPSHUFD(Imm(order), low, high)
			VPADDD(high, low, low)
		}
		VMOVD(low, bits)
		NEGL(bits)
		MOVL(scale, Mem{Base: terms})
		MOVL(bits, Mem{Base: terms, Disp: 4})
		ADDQ(stride, terms)
	}
	ADDQ(Imm(64), codes)
	ADDQ(Imm(4), scales)
	DECQ(groups)
	JNZ(LabelRef("group"))
	finish()
}
