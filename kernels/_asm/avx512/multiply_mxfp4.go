package main

import (
	"fmt"

	. "github.com/mmcloughlin/avo/build"
	. "github.com/mmcloughlin/avo/operand"
	. "github.com/mmcloughlin/avo/reg"
)

// The mxfp4 products: packed groups of 64 columns as in matrix.go, of which each half of 32 columns has its own integer sums and
// scales. Codes are taken apart as those of q4; then a table gives twice their values plus 12, unsigned, and sums start at -12·Σx of
// the half.

const (
	mxfp4Halves     = 2
	mxfp4HalfBytes  = q4GroupQuads / 2 * quadBytes
	mxfp4GroupBytes = scaleBytes + mxfp4Halves*mxfp4HalfBytes
)

// mxfp4Codes takes pairs of quads apart.
type mxfp4Codes struct{ mask, values VecVirtual }

func newMXFP4Codes() mxfp4Codes {
	if mxfp4Table.Base == nil {
		mxfp4Table = GLOBL("mxfp4BytesAVX512", 8|16) // RODATA|NOPTR
		for code := range 16 {
			w := []int{0, 1, 2, 3, 4, 6, 8, 12}[code%8]
			if code >= 8 {
				w = -w
			}
			DATA(code, U8(uint8(12+w)))
		}
	}
	c := mxfp4Codes{nibbleMask(), ZMM()}
	VBROADCASTI32X4(mxfp4Table, c.values)
	return c
}

var mxfp4Table Mem

func (c mxfp4Codes) pair(m Mem) (first, second [vectors]VecVirtual) {
	first, second = pairCodes(m, c.mask)
	for v := range vectors {
		VPSHUFB(first[v], c.values, first[v])
		VPSHUFB(second[v], c.values, second[v])
	}
	return first, second
}

// mxfp4Factors gives half of 32 e8m0 scales as the reference does: 2^(e-127), for e = 0 a denormal number, times 0.5.
func mxfp4Factors(m Mem) (factors [vectors]VecVirtual) {
	for v := range factors {
		factors[v] = ZMM()
		VPMOVZXBD(m.Offset(16*v), factors[v])
		VPSLLD(Imm(23), factors[v], factors[v])
		VPMAXSD_BCST(bitsConstant("smallestE8M0", 1<<22), factors[v], factors[v])
		VMULPS_BCST(float32Constant("half", 0.5), factors[v], factors[v])
	}
	return factors
}

// mxfp4 multiplies weights as they are packed, for few rows.
func mxfp4(rows int) {
	name := fmt.Sprintf("mxfp4Rows%dAVX512", rows)
	function(name, "func(acc *float32, stride int, load, store uint32, weights *byte, codes **int8, column int, terms *uint64, groups, lastQuads int)",
		name+fmt.Sprintf(" adds the products of rows (%d) with one block of packed weights to acc: up to 32 outputs per row, rows", rows),
		"stride bytes apart. Bits of load say which sums are read from acc (the others start at zero), bits of store which are",
		"written. codes are the rows' pointers, of which groups of 64 are read from column on; terms are [halves of groups][rows]. The last",
		"of the groups has lastQuads quads.")
	t := newIntegerTile(rows, q8RegisterRows)
	weights, groups, codes := pointer("weights"), pointer("groups"), newMXFP4Codes()
	quads := GP64()
	label := func(name string, half int) string { return fmt.Sprintf("%s%d", name, half) }

	Label("group")
	prefetch(weights, prefetchAhead, scaleBytes)
	for half := range mxfp4Halves {
		place := scaleBytes + half*mxfp4HalfBytes
		CMPQ(groups, Imm(1))
		JNE(LabelRef(label("whole", half)))
		last := Load(Param("lastQuads"), GP64())
		MOVQ(last, quads)
		if half > 0 {
			SUBQ(Imm(uint64(half*q4GroupQuads)), quads)
			JLE(LabelRef("end"))
		}
		CMPQ(quads, Imm(q4GroupQuads))
		JL(LabelRef(label("part", half)))
		Label(label("whole", half))
		t.begin()
		for pair := range q4GroupQuads / 2 {
			first, second := codes.pair(Mem{Base: weights, Disp: place + pair*quadBytes})
			t.quad(2*pair, first)
			t.quad(2*pair+1, second)
			prefetch(weights, place+pair*quadBytes+prefetchAhead, quadBytes)
		}
		Label(label("scale", half))
		t.end(mxfp4Factors(Mem{Base: weights, Disp: blockOutputs * half}))
	}
	ADDQ(U32(mxfp4GroupBytes), weights)
	DECQ(groups)
	JNZ(LabelRef("group"))
	Label("end")
	t.store()

	for half := range mxfp4Halves { // of the last group: where codes end does not matter
		Label(label("part", half))
		at := GP64()
		MOVQ(weights, at)
		t.begin()
		Label(label("pair", half))
		first, second := codes.pair(Mem{Base: at, Disp: scaleBytes + half*mxfp4HalfBytes})
		t.quad(0, first)
		DECQ(quads)
		JZ(LabelRef(label("scale", half)))
		t.quad(1, second)
		ADDQ(U32(quadBytes), at)
		ADDQ(Imm(8), t.offset)
		DECQ(quads)
		JNZ(LabelRef(label("pair", half)))
		JMP(LabelRef(label("scale", half)))
	}
}

// mxfp4Unpack writes a panel as q4Unpack does, for the same kernels.
func mxfp4Unpack() {
	function("mxfp4UnpackAVX512", "func(panel, weights *byte, groups int)",
		"mxfp4UnpackAVX512 writes whole groups of 64 columns of a block of packed weights, half by half, as float32 scales and one byte",
		"for each code.")
	panel, weights, groups, codes := pointer("panel"), pointer("weights"), pointer("groups"), newMXFP4Codes()
	Label("group")
	prefetch(weights, prefetchAhead, scaleBytes)
	for half := range mxfp4Halves {
		at := half * panelGroupBytes
		for v, factors := range mxfp4Factors(Mem{Base: weights, Disp: blockOutputs * half}) {
			VMOVUPS(factors, Mem{Base: panel, Disp: at + 64*v})
		}
		for pair := range q4GroupQuads / 2 {
			place := scaleBytes + half*mxfp4HalfBytes + pair*quadBytes
			first, second := codes.pair(Mem{Base: weights, Disp: place})
			for v := range vectors {
				target := Mem{Base: panel, Disp: at + panelScaleBytes + 2*pair*quadBytes + 64*v}
				VMOVDQU32(first[v], target)
				VMOVDQU32(second[v], target.Offset(quadBytes))
			}
			prefetch(weights, place+prefetchAhead, quadBytes)
		}
	}
	ADDQ(U32(mxfp4GroupBytes), weights)
	ADDQ(U32(mxfp4Halves*panelGroupBytes), panel)
	DECQ(groups)
	JNZ(LabelRef("group"))
	finish()
}
