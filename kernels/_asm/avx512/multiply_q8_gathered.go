package main

import (
	"fmt"

	. "github.com/mmcloughlin/avo/build"
	. "github.com/mmcloughlin/avo/operand"
	. "github.com/mmcloughlin/avo/reg"
)

// The q8 products of gathered rows (avx512_gathered_amd64.go): a tile's activations lie one after the other, group by group, so that they
// take few lines of the first cache, whatever rows of a batch they were, and need one pointer. Sums of a tile lie there, too.

const (
	q8GatheredLeast = 4 // rows of the smallest and of the largest tile
	q8GatheredMost  = 12
	sumBytes        = 4 * blockOutputs // of one row
)

func q8Gathered(rows int) {
	name := fmt.Sprintf("q8Gathered%dAVX512", rows)
	function(name, "func(sums *float32, load uint32, weights *byte, codes *int8, terms *uint64, groups, lastQuads int, next uintptr, step int)",
		name+fmt.Sprintf(" adds the products of rows (%d) with one block of packed weights to sums [rows][32]; the sums start", rows),
		"at zero if load is 0, else it is 0xffff. codes are [groups][rows][64], terms [groups][rows]. The last of the groups has lastQuads",
		"quads. For each quad it prefetches a line at next into the second cache and moves next on by step bytes.")
	bits := Load(Param("load"), GP32())
	KMOVW(bits, K1)
	sums, weights, codes, terms, groups := pointer("sums"), pointer("weights"), pointer("codes"), pointer("terms"), pointer("groups")
	next, step, quads := pointer("next"), pointer("step"), GP64()

	dots := make([][vectors]VecVirtual, rows)
	for r := range rows {
		for v := range vectors {
			dots[r][v] = ZMM()
		}
	}
	eachDot := func(visit func(r, v int, m Mem)) {
		for r := range rows {
			for v := range vectors {
				visit(r, v, Mem{Base: sums, Disp: sumBytes*r + 64*v})
			}
		}
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
			VPBROADCASTD(Mem{Base: codes, Disp: 64*r + 4*i}, x)
			for v := range w {
				VPDPBUSD(x, w[v], dots[r][v])
			}
		}
		PREFETCHT1(Mem{Base: next})
		ADDQ(step, next)
	}
	start, row := GP64(), GP64()

	Label("group")
	MOVQ(weights, start)
	MOVQ(codes, row)
	eachDot(func(r, v int, _ Mem) { VPBROADCASTD(Mem{Base: terms, Disp: termBytes*r + 4}, dots[r][v]) })
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
	ADDQ(Imm(16), codes)
	SUBQ(Imm(4), quads)
	CMPQ(quads, Imm(4))
	JGE(LabelRef("four"))
	TESTQ(quads, quads)
	JZ(LabelRef("scale"))
	Label("one")
	quad(0)
	ADDQ(U32(quadBytes), weights)
	ADDQ(Imm(4), codes)
	DECQ(quads)
	JNZ(LabelRef("one"))

	Label("scale")
	var scales [vectors]VecVirtual
	for v := range scales {
		scales[v] = ZMM()
		VPMOVZXWD(Mem{Base: start, Disp: 32 * v}, scales[v])
		VPSLLD(Imm(16), scales[v], scales[v])
	}
	eachDot(func(r, v int, m Mem) {
		product, sum := ZMM(), ZMM()
		VMOVUPS_Z(m, K1, sum)
		VMULPS_BCST(Mem{Base: terms, Disp: termBytes * r}, scales[v], product)
		VCVTDQ2PS(dots[r][v], dots[r][v])
		VFMADD231PS(product, dots[r][v], sum)
		VMOVUPS(sum, m)
	})
	KXNORW(K1, K1, K1) // from the second group on, sums are read
	ADDQ(Imm(scaleBytes), weights)
	LEAQ(Mem{Base: row, Disp: 64 * rows}, codes)
	ADDQ(Imm(uint64(termBytes*rows)), terms)
	DECQ(groups)
	JNZ(LabelRef("group"))
	finish()
}

// storeSums copies the sums of gathered rows to their places.
func storeSums() {
	function("storeSumsAVX512", "func(dst *float32, stride int, store uint32, sums *float32, rows int)",
		"storeSumsAVX512 copies those of each row's 32 sums whose bit is set in store to dst, rows stride bytes apart.")
	bits := Load(Param("store"), GP32())
	KMOVW(bits, K3)
	SHRL(Imm(16), bits)
	KMOVW(bits, K4)
	dst, stride, sums, rows := pointer("dst"), pointer("stride"), pointer("sums"), pointer("rows")
	Label("row")
	for v := range vectors {
		x := ZMM()
		VMOVUPS(Mem{Base: sums, Disp: 64 * v}, x)
		VMOVUPS(x, storeMasks[v], Mem{Base: dst, Disp: 64 * v})
	}
	ADDQ(Imm(sumBytes), sums)
	ADDQ(stride, dst)
	DECQ(rows)
	JNZ(LabelRef("row"))
	finish()
}

// gatherGroups copies whole groups of one row to their places in a tile, with their terms.
func gatherGroups() {
	function("gatherGroupsAVX512", "func(dst *int8, stride int, terms *uint64, termStride int, codes *int8, scales *float32, groups int)",
		"gatherGroupsAVX512 copies whole groups of one row to dst, stride bytes apart, and stores their terms, termStride bytes apart.")
	dst, stride, codes := pointer("dst"), pointer("stride"), pointer("codes")
	termsOfGroups(codes, pointer("termStride"), func(x VecVirtual) {
		VMOVDQU8(x, Mem{Base: dst})
		ADDQ(stride, dst)
	})
}
