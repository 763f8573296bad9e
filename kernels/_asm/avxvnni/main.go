// Command avxvnni writes the AVX-VNNI assembly of package kernels: integer products for CPUs that have VPDPBUSD, but not AVX-512.
// Run it with generate.sh, in the folder above, which replaces VPDPBUSD by a macro of its bytes: Go's assembler knows the EVEX
// encoding only. Nothing else here may need a register above Y15 (a test looks at the machine code).
package main

import (
	. "github.com/mmcloughlin/avo/build"
	. "github.com/mmcloughlin/avo/operand"
	. "github.com/mmcloughlin/avo/reg"
)

const (
	vectorOutputs = 8
	blockVectors  = 4 // of the 32 outputs of a block
	quadBytes     = 128
	scaleBytes    = 64
	prefetchAhead = 2048
	// termBytes is the size of a term: a row's scale in one group (float32), then the start of its integer sums (int32).
	termBytes = 8
	// tileRows is the largest number of rows of a tile. Up to wholeRows rows the integer sums of 32 outputs are in registers at a time,
	// else of 16.
	tileRows, wholeRows = 6, 3
)

func main() {
	ConstraintExpr("amd64")
	ConstraintExpr("!purego")

	for _, f := range []format{q8, q4} {
		terms(f)
		for rows := 1; rows <= tileRows; rows++ {
			multiply(f, rows)
		}
	}

	Generate()
}

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

var constants = map[string]Mem{}

// repeat32 is a 32-byte constant: eight times the same four bytes.
func repeat32(name string, bits uint32) Mem {
	if m, ok := constants[name]; ok {
		return m
	}
	m := GLOBL(name+"AVXVNNI", 8|16) // RODATA|NOPTR
	for i := range 8 {
		DATA(4*i, U32(bits))
	}
	constants[name] = m
	return m
}
