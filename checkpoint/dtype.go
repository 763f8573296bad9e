package checkpoint

import (
	"maps"
	"slices"
	"strings"
)

// DType is how a tensor's elements are stored, in the spelling of safetensors.
type DType string

// The element types that are read as float32, and those that TensorFile.Int32s reads; others are listed but have no reader.
const (
	BF16 DType = "BF16"
	F16  DType = "F16"
	F32  DType = "F32"

	F8E4M3 DType = "F8_E4M3" // read as float32 in matrices that have block scales

	I64 DType = "I64"
	I32 DType = "I32"
	U8  DType = "U8"
)

// bitsOf holds every element type that the safetensors format defines, with the bits of one element.
var bitsOf = map[DType]uint64{
	"BOOL": 8, U8: 8, "I8": 8, "F8_E5M2": 8, F8E4M3: 8, "F8_E8M0": 8,
	"I16": 16, "U16": 16, F16: 16, BF16: 16,
	I32: 32, "U32": 32, F32: 32,
	I64: 64, "U64": 64, "F64": 64, "C64": 64,
	"F4": 4, "F6_E2M3": 6, "F6_E3M2": 6,
}

// Readable tells whether Row, RowRange and Float32 can read elements of this type without scales.
func (d DType) Readable() bool { return d == BF16 || d == F16 || d == F32 }

// size is the bytes of one element; only for types of whole bytes.
func (d DType) size() int { return int(bitsOf[d] / 8) }

func knownDTypes() string {
	names := slices.Sorted(maps.Keys(bitsOf))
	texts := make([]string, len(names))
	for i, name := range names {
		texts[i] = string(name)
	}
	return strings.Join(texts, ", ")
}
