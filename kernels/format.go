package kernels

import (
	"fmt"
	"strings"
)

// Format is how the weights of a matrix are stored.
type Format uint8

// The weight formats.
const (
	F32   Format = iota + 1 // float32
	BF16                    // bfloat16: the upper 16 bits of a float32
	Q8                      // unsigned bytes (code+128), groups of GroupColumns inputs with one bfloat16 scale
	Q4                      // 4-bit codes (code+8), groups of Q4GroupColumns inputs with one bfloat16 scale
	FP8                     // e4m3 bytes, groups of FP8GroupColumns inputs with one float32 scale
	MXFP4                   // e2m1 codes, groups of MXFP4GroupColumns inputs with one e8m0 scale: OCP Microscaling
)

const (
	// GroupColumns is the number of input columns that share one scale, of weights and of activations.
	GroupColumns = 64
	// Q4GroupColumns is the number of input columns of a q4 matrix that share one scale. Two of them make a group of activations.
	Q4GroupColumns = 32
	// MXFP4GroupColumns is the number of input columns of an mxfp4 matrix that share one scale. Two of them make a group of
	// activations.
	MXFP4GroupColumns = 32
	// FP8GroupColumns is the number of input columns of an fp8 matrix that share one scale.
	FP8GroupColumns = 128
	// BlockOutputs is the number of outputs that are packed side by side.
	BlockOutputs = 32
	// PanelColumns is the number of columns after which a float format restarts its accumulator.
	PanelColumns = 256
	// LayoutVersion changes whenever packed bytes change their meaning; arenas and handshakes carry it.
	LayoutVersion = 1
)

var formatNames = map[Format]string{F32: "f32", BF16: "bf16", Q8: "q8", Q4: "q4", FP8: "fp8", MXFP4: "mxfp4"}

// Formats lists all formats, the most exact first.
func Formats() []Format { return []Format{F32, BF16, Q8, FP8, Q4, MXFP4} }

// FormatNames are the names of all formats, for help texts: "f32, bf16, q8 or q4".
func FormatNames() string {
	var names []string
	for _, f := range Formats() {
		names = append(names, f.String())
	}
	last := len(names) - 1
	return strings.Join(names[:last], ", ") + " or " + names[last]
}

// ParseFormat gives the format of a name such as "q8"; an error lists the valid names.
func ParseFormat(name string) (Format, error) {
	var valid []string
	for _, f := range Formats() {
		if f.String() == name {
			return f, nil
		}
		valid = append(valid, f.String())
	}
	return 0, fmt.Errorf("unknown weights format %q; valid: %s", name, strings.Join(valid, ", "))
}

// String is the name that ParseFormat reads.
func (f Format) String() string {
	if name, ok := formatNames[f]; ok {
		return name
	}
	return fmt.Sprintf("Format(%d)", uint8(f))
}

// Quantized says whether products with this format take activations as int8 codes and scales.
func (f Format) Quantized() bool { return f == Q8 || f.FourBits() }

// FourBits says whether the weights are codes of 4 bits: dense weights are then better kept in q8 (DESIGN §3).
func (f Format) FourBits() bool { return f == Q4 || f == MXFP4 }

// PartUnit is the number of intermediate columns that may not be divided between two parts of an expert. It is 64
// (ARCHITECTURE.md says why not 256 for the float formats), and for fp8 its group of 128.
func (f Format) PartUnit() int {
	if f == FP8 {
		return FP8GroupColumns
	}
	return 64
}
