package main

import (
	"fmt"

	. "github.com/mmcloughlin/avo/build"
	. "github.com/mmcloughlin/avo/operand"
	. "github.com/mmcloughlin/avo/reg"
)

// The q8 products: packed groups as in matrix.go. VPDPBUSD adds 4 products of unsigned weights (code+128) and signed activations
// to each of 16 int32. Sums that start at -128·Σx of the group need no other correction.

const (
	// q8TileRows is the largest number of rows of a tile.
	q8TileRows = 8
	// q8RegisterRows is for how many rows 2 integer and 2 float vectors each fit in registers. With more rows the float sums
	// stay in acc, in the first cache: they change once a group.
	q8RegisterRows = 6
)

// termBytes is the size of a term: a row's scale in one group (float32), then the start of its integer sums (int32).
const termBytes = 8

func q8(rows int) {
	name := fmt.Sprintf("q8Rows%dAVX512", rows)
	function(name, "func(acc *float32, stride int, load, store uint32, weights *byte, codes **int8, group int, terms *uint64, groups, lastQuads int)",
		name+fmt.Sprintf(" adds the products of rows (%d) with one block of packed weights to acc: up to 32 outputs per row, rows", rows),
		"stride bytes apart. Bits of load say which sums are read from acc (the others start at zero), bits of store which are",
		"written. codes are the rows' pointers, of which groups are read from the one at group on; terms are [groups][rows]. The last of",
		"the groups has lastQuads quads.")
	outputMasks()
	stride, weights := pointer("stride"), pointer("weights")
	codes := rowPointers("codes", rows)
	offset, terms, groups, quads := pointer("group"), pointer("terms"), pointer("groups"), GP64()
	SHLQ(Imm(6), offset) // in codes

	sums, dots := make([][vectors]VecVirtual, rows), make([][vectors]VecVirtual, rows)
	inRegisters := rows <= q8RegisterRows
	// eachSum visits the places of the sums; it needs a register that is free where it is used.
	eachSum := func(visit func(r, v int, m Mem)) {
		target := Load(Param("acc"), GP64())
		for r := range rows {
			for v := range vectors {
				visit(r, v, Mem{Base: target, Disp: 64 * v})
			}
			if r < rows-1 {
				ADDQ(stride, target)
			}
		}
	}
	eachSum(func(r, v int, m Mem) {
		sums[r][v], dots[r][v] = ZMM(), ZMM()
		VMOVUPS_Z(m, loadMasks[v], sums[r][v])
		if !inRegisters {
			VMOVUPS(sums[r][v], storeMasks[v], m)
		}
	})
	// With one row memory is all that counts and a near prefetch is best. With more, computing takes long enough to bring weights into
	// the second cache early (measured: docs/benchmarks.md).
	ahead := func(at, bytes int) {
		if rows == 1 {
			prefetch(weights, at+prefetchAhead, bytes)
			return
		}
		prefetchSecond(weights, at+prefetchFar, bytes)
		prefetch(weights, at+prefetchNear, bytes)
	}
	// quad is at the group's scales, as weights is.
	quad := func(i int) {
		var w [vectors]VecVirtual
		for v := range w {
			w[v] = ZMM()
			VMOVDQU8(Mem{Base: weights, Disp: scaleBytes + i*quadBytes + 64*v}, w[v])
		}
		for r := range rows {
			x := ZMM()
			VPBROADCASTD(Mem{Base: codes[r], Index: offset, Scale: 1, Disp: 4 * i}, x)
			for v := range w {
				VPDPBUSD(x, w[v], dots[r][v])
			}
		}
		ahead(scaleBytes+i*quadBytes, quadBytes)
	}
	start := GP64()

	Label("group")
	MOVQ(weights, start)
	for r := range rows {
		VPBROADCASTD(Mem{Base: terms, Disp: termBytes*r + 4}, dots[r][0])
		VMOVDQA32(dots[r][0], dots[r][1])
	}
	ahead(0, scaleBytes)
	MOVQ(U32(groupQuads), quads)
	CMPQ(groups, Imm(1))
	JNE(LabelRef("four"))
	last := Load(Param("lastQuads"), GP64())
	MOVQ(last, quads)
	CMPQ(quads, Imm(4))
	JLT(LabelRef("one"))
	Label("four")
	for i := range 4 {
		quad(i)
	}
	ADDQ(U32(4*quadBytes), weights)
	ADDQ(Imm(16), offset)
	SUBQ(Imm(4), quads)
	CMPQ(quads, Imm(4))
	JGE(LabelRef("four"))
	TESTQ(quads, quads)
	JZ(LabelRef("scale"))
	Label("one")
	quad(0)
	ADDQ(U32(quadBytes), weights)
	ADDQ(Imm(4), offset)
	DECQ(quads)
	JNZ(LabelRef("one"))

	Label("scale")
	var scales [vectors]VecVirtual
	for v := range scales {
		scales[v] = ZMM()
		VPMOVZXWD(Mem{Base: start, Disp: 32 * v}, scales[v])
		VPSLLD(Imm(16), scales[v], scales[v])
	}
	addGroup := func(r, v int, sum VecVirtual) {
		product := ZMM()
		VMULPS_BCST(Mem{Base: terms, Disp: termBytes * r}, scales[v], product)
		VCVTDQ2PS(dots[r][v], dots[r][v])
		VFMADD231PS(product, dots[r][v], sum)
	}
	if inRegisters {
		for r := range rows {
			for v := range vectors {
				addGroup(r, v, sums[r][v])
			}
		}
	} else {
		eachSum(func(r, v int, m Mem) {
			sum := ZMM()
			VMOVUPS_Z(m, storeMasks[v], sum)
			addGroup(r, v, sum)
			VMOVUPS(sum, storeMasks[v], m)
		})
	}
	ADDQ(Imm(scaleBytes), weights)
	ADDQ(Imm(uint64(termBytes*rows)), terms)
	DECQ(groups)
	JNZ(LabelRef("group"))

	if inRegisters {
		eachSum(func(r, v int, m Mem) { VMOVUPS(sums[r][v], storeMasks[v], m) })
	}
	finish()
}

// groupTerms sums four groups at a time: VPDPBUSD with ones gives 16 partial sums of each, which are halved into columns.
func groupTerms() {
	function("groupTermsAVX512", "func(terms *uint64, stride int, codes *int8, scales *float32, groups int)",
		"groupTermsAVX512 stores the terms of whole groups of one row, stride bytes apart.")
	termsOfGroups(pointer("codes"), pointer("stride"), func(VecVirtual) {})
}

// termsOfGroups stores the terms of whole groups, stride bytes apart, and hands each group's codes on.
func termsOfGroups(codes, stride Register, visit func(x VecVirtual)) {
	terms, scales, groups := pointer("terms"), pointer("scales"), pointer("groups")
	minus128, scale, bits := ZMM(), GP32(), GP32()
	MOVL(U32(0x80808080), bits)
	VPBROADCASTD(bits, minus128)
	Label("group")
	sum, x := ZMM(), ZMM()
	zero(sum)
	VMOVDQU8(Mem{Base: codes}, x)
	visit(x)
	VPDPBUSD(x, minus128, sum) // 128, unsigned
	half, quarter := YMM(), XMM()
	VEXTRACTI64X4(Imm(1), sum, half)
	VPADDD(half, sum.AsY(), half)
	VEXTRACTI128(Imm(1), half, quarter)
	VPADDD(quarter, half.AsX(), quarter)
	swapped := XMM()
	VPSHUFD(Imm(0x4e), quarter, swapped)
	VPADDD(swapped, quarter, quarter)
	VPSHUFD(Imm(0xb1), quarter, swapped)
	VPADDD(swapped, quarter, quarter)
	VMOVD(quarter, bits)
	NEGL(bits)
	MOVL(Mem{Base: scales}, scale)
	MOVL(scale, Mem{Base: terms})
	MOVL(bits, Mem{Base: terms, Disp: 4})
	ADDQ(stride, terms)
	ADDQ(Imm(64), codes)
	ADDQ(Imm(4), scales)
	DECQ(groups)
	JNZ(LabelRef("group"))
	finish()
}
