package kernels

import (
	"encoding/binary"
	"errors"
	"fmt"
	"math"
)

// ErrWeight is the error of Pack for a weight that the format can't hold.
var ErrWeight = errors.New("weight can't be packed")

// Pack fills m.Data from rows of float32 weights: row(o, dst) stores the Columns weights of output o into dst. Rows are asked
// for once each, in ascending order. An infinite weight or a NaN, or a finite one that bfloat16 rounds to infinity, is an
// ErrWeight that names the output; m.Data is then undefined.
//
// q8: the scale of an output and group is bfloat16(maxabs/127); codes are round-half-even(w/scale), clamped to
// [-127, 127]. A group whose scale would be denormal is zeros.
func Pack(m Matrix, row func(output int, dst []float32)) error {
	if want := MatrixBytes(m.Format, m.Outputs, m.Columns); len(m.Data) != want {
		return fmt.Errorf("pack a %v matrix [%d, %d]: %d bytes given, %d needed", m.Format, m.Outputs, m.Columns, len(m.Data), want)
	}
	weights := make([]float32, m.Columns)
	for o := range m.Outputs {
		row(o, weights)
		if column := firstNotFinite(weights); column >= 0 {
			return fmt.Errorf("%w: output row %d, column %d is %v", ErrWeight, o, column, weights[column])
		}
		if column := m.packRow(o, weights); column >= 0 {
			return fmt.Errorf("%w: output row %d, column %d is %v, out of range for %v", ErrWeight, o, column, weights[column], m.Format)
		}
	}
	m.padOutputs()
	return nil
}

// firstNotFinite is the index of the first infinity or NaN, or -1.
func firstNotFinite(x []float32) int {
	for i, v := range x {
		if math.Float32bits(v)&0x7f800000 == 0x7f800000 {
			return i
		}
	}
	return -1
}

// packRow stores the weights of one output; it gives the first column that the format can't hold, or -1.
func (m Matrix) packRow(output int, weights []float32) int {
	block, lane := m.block(output), output%BlockOutputs
	switch m.Format {
	case F32:
		for c, w := range weights {
			binary.LittleEndian.PutUint32(block[(c*BlockOutputs+lane)*4:], math.Float32bits(w))
		}
	case BF16:
		for c, w := range weights {
			rounded := toBF16(w)
			if rounded&0x7f80 == 0x7f80 {
				return c
			}
			binary.LittleEndian.PutUint16(block[(c*BlockOutputs+lane)*2:], rounded)
		}
	case Q8:
		for g := range Groups(m.Columns) {
			from := g * GroupColumns
			packGroup(block[g*fullGroupBytes:], lane, weights[from:min(from+GroupColumns, m.Columns)])
		}
	}
	return -1
}

// packGroup quantises the weights of one output and group into a packed group.
func packGroup(group []byte, lane int, weights []float32) {
	var largest float32
	for _, w := range weights {
		largest = max(largest, float32(math.Abs(float64(w))))
	}
	scale := toBF16(largest / 127)
	if scale < 0x80 { // zero or denormal
		scale = 0
	}
	binary.LittleEndian.PutUint16(group[2*lane:], scale)
	codes := group[scaleBytes:]
	for quad := 0; quad*quadColumns < len(weights); quad++ {
		for i := range quadColumns {
			code := int32(0)
			if c := quad*quadColumns + i; c < len(weights) && scale != 0 {
				code = min(max(int32(roundEven(weights[c]/fromBF16(scale))), -127), 127)
			}
			codes[quad*quadBytes+lane*quadColumns+i] = byte(code + codeOffset)
		}
	}
}

// roundMagic is 1.5·2^23: adding and subtracting it rounds a float32 below 2^22 to an integer, ties to even.
const roundMagic = 3 << 22

// roundEven rounds to the nearest integer, ties to even; |x| < 2^22. It never gives -0.
func roundEven(x float32) float32 { return (x + roundMagic) - roundMagic }

// padOutputs makes the outputs beyond the last one zeros.
func (m Matrix) padOutputs() {
	zeros := make([]float32, m.Columns)
	for o := m.Outputs; o%BlockOutputs != 0; o++ {
		m.packRow(o, zeros)
	}
}

// Unpack stores the weights of one output, as products use them, into dst [Columns].
func (m Matrix) Unpack(output int, dst []float32) {
	block, lane := m.block(output), output%BlockOutputs
	for c := range dst[:m.Columns] {
		switch m.Format {
		case F32:
			dst[c] = math.Float32frombits(binary.LittleEndian.Uint32(block[(c*BlockOutputs+lane)*4:]))
		case BF16:
			dst[c] = fromBF16(binary.LittleEndian.Uint16(block[(c*BlockOutputs+lane)*2:]))
		case Q8:
			group := block[c/GroupColumns*fullGroupBytes:]
			quad := c % GroupColumns / quadColumns
			code := int32(group[scaleBytes+quad*quadBytes+lane*quadColumns+c%quadColumns]) - codeOffset
			dst[c] = float32(code) * fromBF16(binary.LittleEndian.Uint16(group[2*lane:]))
		}
	}
}
