package kernels

import "fmt"

// The packed layout: blocks of BlockOutputs outputs, one after the other; missing outputs of the last block are zeros.
//
//	f32, bf16  for each column: the 32 outputs side by side (128 or 64 bytes).
//	q8         for each group of 64 columns: 32 bfloat16 scales (64 bytes), then its quads. A quad is 4 consecutive columns:
//	           for each of the 32 outputs the 4 bytes side by side (128 bytes). The last group has as many quads as it
//	           needs; missing columns hold the byte 128, which is zero.
//
// All numbers are little-endian. Every matrix is a multiple of 64 bytes long.
const (
	quadColumns    = 4
	quadBytes      = quadColumns * BlockOutputs
	groupQuads     = GroupColumns / quadColumns
	scaleBytes     = 2 * BlockOutputs
	fullGroupBytes = scaleBytes + groupQuads*quadBytes
	codeOffset     = 128 // a stored byte is code + codeOffset
)

// Matrix is a packed weight matrix y = W x with W of shape [Outputs, Columns].
type Matrix struct {
	Format           Format
	Outputs, Columns int
	Data             []byte // MatrixBytes long, 64-byte aligned
}

// MatrixBytes is the packed size, a multiple of 64. It panics for an unknown format; sizes must not be negative.
func MatrixBytes(f Format, outputs, columns int) int {
	return (outputs + BlockOutputs - 1) / BlockOutputs * blockBytes(f, columns)
}

// blockBytes is the size of one block of outputs.
func blockBytes(f Format, columns int) int {
	switch f {
	case F32:
		return columns * BlockOutputs * 4
	case BF16:
		return columns * BlockOutputs * 2
	case Q8:
		return Groups(columns)*scaleBytes + (columns+quadColumns-1)/quadColumns*quadBytes
	}
	panic(fmt.Sprintf("kernels: %v is no weights format", f))
}

// block is the packed bytes of the block that starts at an output.
func (m Matrix) block(output int) []byte {
	n := blockBytes(m.Format, m.Columns)
	start := output / BlockOutputs * n
	return m.Data[start : start+n : start+n]
}
