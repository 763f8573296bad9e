package main

import (
	"fmt"
	"math"

	. "github.com/mmcloughlin/avo/build"
	. "github.com/mmcloughlin/avo/operand"
)

var constants = map[string]Mem{}

// repeat32 is a 32-byte constant: eight times the same four bytes.
func repeat32(name string, bits uint32) Mem {
	return constant(name, func() {
		for i := range 8 {
			DATA(4*i, U32(bits))
		}
	})
}

// repeat64 is a 32-byte constant: four times the same eight bytes.
func repeat64(name string, bits uint64) Mem {
	return constant(name, func() {
		for i := range 4 {
			DATA(8*i, U64(bits))
		}
	})
}

// repeatFloat is repeat32 of a float32.
func repeatFloat(name string, value float32) Mem { return repeat32(name, math.Float32bits(value)) }

func constant(name string, fill func()) Mem {
	if m, ok := constants[name]; ok {
		return m
	}
	m := GLOBL(fmt.Sprintf("%sAVX2", name), 8|16) // RODATA|NOPTR
	fill()
	constants[name] = m
	return m
}

// tailMasks is 16 words of ones, then 16 of zeros: read from (16-n)·4, the first n of 16 lanes are ones.
func tailMasks() Mem {
	return constant("tailMasks", func() {
		for i := range 32 {
			bits := uint32(0)
			if i < 16 {
				bits = math.MaxUint32
			}
			DATA(4*i, U32(bits))
		}
	})
}
