package kernels

import "fmt"

// The packed layout: blocks of BlockOutputs outputs, one after the other; missing outputs of the last block are zeros.
//
//	f32, bf16  for each column: the 32 outputs side by side (128 or 64 bytes).
//	q8         for each group of 64 columns: 32 bfloat16 scales (64 bytes), then its quads. A quad is 4 consecutive columns:
//	           for each of the 32 outputs the 4 bytes side by side (128 bytes). The last group has as many quads as it
//	           needs; missing columns hold the byte 128, which is zero.
//	q4         for each group of 32 columns: 32 bfloat16 scales (64 bytes), then its pairs of quads: a byte of a pair holds
//	           the code of the first quad in its lower four bits and the one of the second quad, four columns on, in its
//	           upper four (128 bytes). The last group has as many pairs as it needs; missing columns hold the code 8,
//	           which is zero.
//	fp8        for each group of 128 columns: 32 float32 scales (128 bytes), then for each column the 32 outputs side by side
//	           (32 bytes). A matrix of an odd number of columns has one more, of zeros.
//	mxfp4      for each group of 64 columns: 32 e8m0 scales of its first 32 columns, 32 of the others (64 bytes), then its pairs of
//	           quads as in q4, with the codes as a checkpoint stores them. Missing columns hold the code 0, which is zero;
//	           missing outputs and halves of groups the scale 127, which is one.
//
// All numbers are little-endian. Every matrix is a multiple of 64 bytes long.
const (
	quadColumns    = 4
	quadBytes      = quadColumns * BlockOutputs
	groupQuads     = GroupColumns / quadColumns
	scaleBytes     = 2 * BlockOutputs
	fullGroupBytes = scaleBytes + groupQuads*quadBytes
	codeOffset     = 128 // a stored byte is code + codeOffset

	q4GroupQuads   = Q4GroupColumns / quadColumns
	q4GroupBytes   = scaleBytes + q4GroupQuads/2*quadBytes
	fp8ScaleBytes  = 4 * BlockOutputs
	fp8GroupBytes  = fp8ScaleBytes + FP8GroupColumns*BlockOutputs
	q4Offset       = 8 // a stored code is code + q4Offset
	q4SmallestCode = -8
	q4LargestCode  = 7
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
	case FP8:
		return fp8Groups(columns)*fp8ScaleBytes + (columns+1)&^1*BlockOutputs
	case MXFP4:
		return Groups(columns)*mxfp4ScaleBytes + (columns+2*quadColumns-1)/(2*quadColumns)*quadBytes
	case Q4:
		return q4Groups(columns)*scaleBytes + (columns+2*quadColumns-1)/(2*quadColumns)*quadBytes
	}
	panic(fmt.Sprintf("kernels: %v is no weights format", f))
}

// block is the packed bytes of the block that starts at an output.
func (m Matrix) block(output int) []byte {
	n := blockBytes(m.Format, m.Columns)
	start := output / BlockOutputs * n
	return m.Data[start : start+n : start+n]
}

// q4Groups is the number of scales of an output in q4.
func q4Groups(columns int) int { return (columns + Q4GroupColumns - 1) / Q4GroupColumns }

// fp8Groups is the number of scales of an output in fp8.
func fp8Groups(columns int) int { return (columns + FP8GroupColumns - 1) / FP8GroupColumns }
