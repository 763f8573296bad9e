package main

import (
	"fmt"

	. "github.com/mmcloughlin/avo/build"
	. "github.com/mmcloughlin/avo/operand"
	. "github.com/mmcloughlin/avo/reg"
)

// The q4 products: packed groups as in matrix.go. A vector of a pair holds the unsigned codes (w+8) of two quads, which a shift and
// two ANDs take apart; sums start at -8·Σx of the group. A group has only 8 quads for the conversion, product of scales and FMA that
// end it: at most 8 of 11 instructions are VPDPBUSD. Where several tiles of rows use the same weights, these are taken apart once,
// into a panel of bytes.

const (
	q4GroupQuads = 8
	q4GroupBytes = scaleBytes + q4GroupQuads/2*quadBytes
	// panelGroupBytes is the size of a group in a panel: 32 float32 scales, then its quads.
	panelScaleBytes = 2 * scaleBytes
	panelGroupBytes = panelScaleBytes + q4GroupQuads*quadBytes
	// q4PanelFewest and q4PanelMost are the rows of tiles that more than q8TileRows rows are cut into. All sums are in registers.
	q4PanelFewest, q4PanelMost = 4, 7
)

// integerTile is what the q4 kernels share: integer and float sums of a tile of rows.
type integerTile struct {
	rows           int
	stride         Register
	codes          []Register
	offset         Register // of the group in codes
	terms          Register
	sums, dots     [][vectors]VecVirtual
	sumsInRegister bool
}

// newIntegerTile loads the masks, the rows' pointers and the sums.
func newIntegerTile(rows, registerRows int) *integerTile {
	outputMasks()
	t := &integerTile{rows: rows, stride: pointer("stride"), codes: rowPointers("codes", rows), offset: pointer("column"), terms: pointer("terms")}
	t.sums, t.dots = make([][vectors]VecVirtual, rows), make([][vectors]VecVirtual, rows)
	t.sumsInRegister = rows <= registerRows
	t.eachSum(func(r, v int, m Mem) {
		t.sums[r][v], t.dots[r][v] = ZMM(), ZMM()
		VMOVUPS_Z(m, loadMasks[v], t.sums[r][v])
		if !t.sumsInRegister {
			VMOVUPS(t.sums[r][v], storeMasks[v], m)
		}
	})
	return t
}

// eachSum visits the places of the sums in memory.
func (t *integerTile) eachSum(visit func(r, v int, m Mem)) {
	target := Load(Param("acc"), GP64())
	for r := range t.rows {
		for v := range vectors {
			visit(r, v, Mem{Base: target, Disp: 64 * v})
		}
		if r < t.rows-1 {
			ADDQ(t.stride, target)
		}
	}
}

// begin starts the integer sums of a group.
func (t *integerTile) begin() {
	for r := range t.rows {
		for v := range vectors {
			VPBROADCASTD(Mem{Base: t.terms, Disp: termBytes*r + 4}, t.dots[r][v])
		}
	}
}

// quad adds the products of quad i of a group.
func (t *integerTile) quad(i int, w [vectors]VecVirtual) {
	for r := range t.rows {
		x := ZMM()
		VPBROADCASTD(Mem{Base: t.codes[r], Index: t.offset, Scale: 1, Disp: 4 * i}, x)
		for v := range w {
			VPDPBUSD(x, w[v], t.dots[r][v])
		}
	}
}

// end adds the group to the float sums and steps to the next one.
func (t *integerTile) end(scales [vectors]VecVirtual) {
	add := func(r, v int, sum VecVirtual) {
		product := ZMM()
		VMULPS_BCST(Mem{Base: t.terms, Disp: termBytes * r}, scales[v], product)
		VCVTDQ2PS(t.dots[r][v], t.dots[r][v])
		VFMADD231PS(product, t.dots[r][v], sum)
	}
	if t.sumsInRegister {
		for r := range t.rows {
			for v := range vectors {
				add(r, v, t.sums[r][v])
			}
		}
	} else {
		t.eachSum(func(r, v int, m Mem) {
			sum := ZMM()
			VMOVUPS_Z(m, storeMasks[v], sum)
			add(r, v, sum)
			VMOVUPS(sum, storeMasks[v], m)
		})
	}
	ADDQ(Imm(4*q4GroupQuads), t.offset)
	ADDQ(Imm(uint64(termBytes*t.rows)), t.terms)
}

// store ends the kernel.
func (t *integerTile) store() {
	if t.sumsInRegister {
		t.eachSum(func(r, v int, m Mem) { VMOVUPS(t.sums[r][v], storeMasks[v], m) })
	}
	finish()
}

func nibbleMask() VecVirtual {
	mask, bits := ZMM(), GP32()
	MOVL(U32(0x0f0f0f0f), bits)
	VPBROADCASTD(bits, mask)
	return mask
}

// pairCodes takes the codes of a pair of quads apart.
func pairCodes(m Mem, mask VecVirtual) (first, second [vectors]VecVirtual) {
	for v := range vectors {
		first[v], second[v] = ZMM(), ZMM()
		VMOVDQU32(m.Offset(64*v), second[v])
		VPANDD(mask, second[v], first[v])
		VPSRLW(Imm(4), second[v], second[v])
		VPANDD(mask, second[v], second[v])
	}
	return first, second
}

// widenedScales loads 32 bfloat16 scales.
func widenedScales(m Mem) (scales [vectors]VecVirtual) {
	for v := range scales {
		scales[v] = ZMM()
		VPMOVZXWD(m.Offset(32*v), scales[v])
		VPSLLD(Imm(16), scales[v], scales[v])
	}
	return scales
}

// q4 multiplies weights as they are packed, for few rows.
func q4(rows int) {
	name := fmt.Sprintf("q4Rows%dAVX512", rows)
	function(name, "func(acc *float32, stride int, load, store uint32, weights *byte, codes **int8, column int, terms *uint64, groups, lastQuads int)",
		name+fmt.Sprintf(" adds the products of rows (%d) with one block of packed weights to acc: up to 32 outputs per row, rows", rows),
		"stride bytes apart. Bits of load say which sums are read from acc (the others start at zero), bits of store which are",
		"written. codes are the rows' pointers, of which groups are read from column on; terms are [groups][rows]. The last of the",
		"groups has lastQuads quads.")
	t := newIntegerTile(rows, q8RegisterRows)
	weights, groups, mask := pointer("weights"), pointer("groups"), nibbleMask()

	Label("group")
	t.begin()
	prefetch(weights, prefetchAhead, scaleBytes)
	CMPQ(groups, Imm(1))
	JNE(LabelRef("whole"))
	quads := Load(Param("lastQuads"), GP64())
	CMPQ(quads, Imm(q4GroupQuads))
	JNE(LabelRef("part"))
	Label("whole")
	for pair := range q4GroupQuads / 2 {
		place := scaleBytes + pair*quadBytes
		first, second := pairCodes(Mem{Base: weights, Disp: place}, mask)
		t.quad(2*pair, first)
		t.quad(2*pair+1, second)
		prefetch(weights, place+prefetchAhead, quadBytes)
	}
	Label("scale")
	t.end(widenedScales(Mem{Base: weights}))
	ADDQ(U32(q4GroupBytes), weights)
	DECQ(groups)
	JNZ(LabelRef("group"))
	t.store()

	Label("part") // of the last group: where weights and codes end does not matter
	at := GP64()
	MOVQ(weights, at)
	Label("pair")
	first, second := pairCodes(Mem{Base: at, Disp: scaleBytes}, mask)
	t.quad(0, first)
	DECQ(quads)
	JZ(LabelRef("scale"))
	t.quad(1, second)
	ADDQ(U32(quadBytes), at)
	ADDQ(Imm(8), t.offset)
	DECQ(quads)
	JNZ(LabelRef("pair"))
	JMP(LabelRef("scale"))
}

// q4Unpack writes a panel.
func q4Unpack() {
	function("q4UnpackAVX512", "func(panel, weights *byte, groups int)",
		"q4UnpackAVX512 writes whole groups of a block of packed weights as float32 scales and one byte for each code.")
	panel, weights, groups, mask := pointer("panel"), pointer("weights"), pointer("groups"), nibbleMask()
	Label("group")
	for v, scales := range widenedScales(Mem{Base: weights}) {
		VMOVUPS(scales, Mem{Base: panel, Disp: 64 * v})
	}
	prefetch(weights, prefetchAhead, scaleBytes)
	for pair := range q4GroupQuads / 2 {
		place := scaleBytes + pair*quadBytes
		first, second := pairCodes(Mem{Base: weights, Disp: place}, mask)
		for v := range vectors {
			target := Mem{Base: panel, Disp: panelScaleBytes + 2*pair*quadBytes + 64*v}
			VMOVDQU32(first[v], target)
			VMOVDQU32(second[v], target.Offset(quadBytes))
		}
		prefetch(weights, place+prefetchAhead, quadBytes)
	}
	ADDQ(U32(q4GroupBytes), weights)
	ADDQ(U32(panelGroupBytes), panel)
	DECQ(groups)
	JNZ(LabelRef("group"))
	finish()
}

// q4Panel multiplies a panel, and meanwhile asks for the packed weights that the next panel is made of.
func q4Panel(rows int) {
	name := fmt.Sprintf("q4Panel%dAVX512", rows)
	function(name, "func(acc *float32, stride int, load, store uint32, panel, weights *byte, next int, codes **int8, column int, terms *uint64, groups int)",
		name+fmt.Sprintf(" is q4Rows%dAVX512 for whole groups, which q4UnpackAVX512 wrote into panel (or mxfp4UnpackAVX512). As many packed groups, next bytes behind", rows),
		"weights, are prefetched.")
	t := newIntegerTile(rows, q4PanelMost)
	panel, next, groups := pointer("panel"), pointer("weights"), pointer("groups")
	distance := pointer("next")
	ADDQ(distance, next)

	Label("group")
	t.begin()
	for i := range q4GroupQuads {
		var w [vectors]VecVirtual
		for v := range w {
			w[v] = ZMM()
			VMOVDQU32(Mem{Base: panel, Disp: panelScaleBytes + i*quadBytes + 64*v}, w[v])
		}
		t.quad(i, w)
		PREFETCHT1(Mem{Base: next, Disp: 64 * i})
	}
	PREFETCHT1(Mem{Base: next, Disp: 64 * q4GroupQuads})
	var scales [vectors]VecVirtual
	for v := range scales {
		scales[v] = ZMM()
		VMOVUPS(Mem{Base: panel, Disp: 64 * v}, scales[v])
	}
	t.end(scales)
	ADDQ(U32(q4GroupBytes), next)
	ADDQ(U32(panelGroupBytes), panel)
	DECQ(groups)
	JNZ(LabelRef("group"))
	t.store()
}

// fourBitTerms sums two groups of 32 columns, one of the activations, at a time. Sums start at -offset·Σx.
func fourBitTerms(format string, offset uint32) {
	name := format + "TermsAVX512"
	function(name, "func(terms *uint64, stride int, codes *int8, scales *float32, groups int)",
		name+" stores the terms of one row's groups of 32 columns, stride bytes apart; groups are those of the activations, two each.")
	terms, stride, codes, scales, groups := pointer("terms"), pointer("stride"), pointer("codes"), pointer("scales"), pointer("groups")
	offsets, scale, bits := ZMM(), GP32(), GP32()
	MOVL(U32(0x01010101*offset), bits)
	VPBROADCASTD(bits, offsets)
	Label("group")
	sum, x := ZMM(), ZMM()
	zero(sum)
	VMOVDQU8(Mem{Base: codes}, x)
	VPDPBUSD(x, offsets, sum) // unsigned; 8 partial sums of each group
	MOVL(Mem{Base: scales}, scale)
	swapped := ZMM()
	for _, order := range []uint64{0x4e, 0xb1} {
		VPSHUFD(Imm(order), sum, swapped)
		VPADDD(swapped, sum, sum)
	}
	quarter, total := XMM(), XMM()
	for group := range 2 {
		VEXTRACTI32X4(Imm(uint64(2*group)), sum, total)
		VEXTRACTI32X4(Imm(uint64(2*group+1)), sum, quarter)
		VPADDD(quarter, total, total)
		VMOVD(total, bits)
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
