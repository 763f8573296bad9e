package main

import (
	. "github.com/mmcloughlin/avo/build"
	. "github.com/mmcloughlin/avo/operand"
	. "github.com/mmcloughlin/avo/reg"
)

const (
	blockOutputs  = 32
	vectors       = 2 // 512-bit vectors of 32 outputs
	groupQuads    = 16
	quadBytes     = 128
	scaleBytes    = 64
	prefetchAhead = 2048 // bytes; decode is bound by memory (docs/benchmarks.md)
	prefetchFar   = 8192 // into the second cache, and
	prefetchNear  = 1024 // from there into the first one
)

// function begins a function of a signature; its documentation becomes the comment of its Go declaration.
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

func zero(v VecVirtual) { VPXORD(v, v, v) }

// prefetch asks for the lines of bytes that a product reads prefetchAhead bytes later: those of the next blocks, too, since blocks
// lie one after the other. A prefetch beyond the matrix does nothing.
func prefetch(weights Register, ahead, bytes int) {
	for line := 0; line < bytes; line += 64 {
		PREFETCHT0(Mem{Base: weights, Disp: ahead + line})
	}
}

// prefetchSecond asks for lines to come into the second cache.
func prefetchSecond(weights Register, ahead, bytes int) {
	for line := 0; line < bytes; line += 64 {
		PREFETCHT1(Mem{Base: weights, Disp: ahead + line})
	}
}

// outputMasks loads the masks of a tile's 32 outputs as two times 16: K1 and K2 say which sums are read (the others begin with
// zero), K3 and K4 which are stored.
func outputMasks() {
	for i, name := range []string{"load", "store"} {
		bits := Load(Param(name), GP32())
		low, high := []Physical{K1, K3}[i], []Physical{K2, K4}[i]
		KMOVW(bits, low)
		SHRL(Imm(16), bits)
		KMOVW(bits, high)
	}
}

var (
	loadMasks  = [vectors]Physical{K1, K2}
	storeMasks = [vectors]Physical{K3, K4}
)

// rowPointers loads the pointers of a tile's rows from the array that a parameter points to.
func rowPointers(name string, rows int) []Register {
	array := pointer(name)
	pointers := make([]Register, rows)
	for r := range pointers {
		pointers[r] = GP64()
		MOVQ(Mem{Base: array, Disp: 8 * r}, pointers[r])
	}
	return pointers
}
