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
// for once each, in ascending order. An infinite weight or a NaN, or a finite one that the format would turn into
// infinity (of bf16 and q4 some above 2^127), is an ErrWeight that names the output; m.Data is then undefined.
//
// q8: the scale of an output and group is bfloat16(maxabs/127), codes are round-half-even(w/scale). A group whose scale
// would be denormal is zeros.
//
// fp8: the scale of an output and group is maxabs/448, bytes are w/scale rounded to e4m3, half to even. A group whose scale would
// be denormal is zeros. PackStored keeps bytes and scales as a checkpoint has them.
//
// q4: see quantizeWeightsQ4Generic. mxfp4: see quantizeWeightsMXFP4Generic; PackStoredMXFP4 keeps codes and scales as a checkpoint has
// them.
func Pack(m Matrix, row func(output int, dst []float32)) error {
	if want := MatrixBytes(m.Format, m.Outputs, m.Columns); len(m.Data) != want {
		return fmt.Errorf("pack a %v matrix [%d, %d]: %d bytes given, %d needed", m.Format, m.Outputs, m.Columns, len(m.Data), want)
	}
	weights := make([]float32, m.Columns)
	p := packer{m: m, operations: best().operations}
	switch m.Format {
	case Q8:
		p.codes, p.scales = make([]byte, PaddedColumns(m.Columns)), make([]uint16, Groups(m.Columns))
	case FP8:
		p.codes, p.floatScales = make([]byte, m.Columns), make([]float32, fp8Groups(m.Columns))
	case Q4:
		p.codes, p.scales = make([]byte, fourBitColumns(m.Columns)), make([]uint16, q4Groups(m.Columns))
	case MXFP4:
		p.codes, p.byteScales = make([]byte, fourBitColumns(m.Columns)), make([]byte, mxfp4Groups(m.Columns))
	}
	for o := range m.Outputs {
		row(o, weights)
		if !p.operations.finite(weights) {
			column := firstNotFinite(weights)
			return fmt.Errorf("%w: output row %d, column %d is %v", ErrWeight, o, column, weights[column])
		}
		if column := p.row(o, weights); column >= 0 {
			return fmt.Errorf("%w: output row %d, column %d is %v, out of range for %v", ErrWeight, o, column, weights[column], m.Format)
		}
	}
	clear(weights)
	for o := m.Outputs; o%BlockOutputs != 0; o++ {
		p.row(o, weights)
	}
	return nil
}

// packer holds what Pack needs for a row. All implementations give the same bytes, so it takes the best.
type packer struct {
	m           Matrix
	operations  operations
	codes       []byte // of one output
	scales      []uint16
	floatScales []float32 // fp8
	byteScales  []byte    // mxfp4
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

// firstOverflowQ4 is the column of the largest weight of the first group in which a code's value would be infinite, or -1.
func firstOverflowQ4(weights []float32, scales []uint16) int {
	for g, scale := range scales {
		if !math.IsInf(float64(fromBF16(scale)*q4SmallestCode), 0) {
			continue
		}
		largest := g * Q4GroupColumns
		for c := largest; c < min((g+1)*Q4GroupColumns, len(weights)); c++ {
			if math.Abs(float64(weights[c])) > math.Abs(float64(weights[largest])) {
				largest = c
			}
		}
		return largest
	}
	return -1
}

// row stores the finite weights of one output; it gives the first column that the format can't hold, or -1.
func (p *packer) row(output int, weights []float32) int {
	block, lane := p.m.block(output), output%BlockOutputs
	switch p.m.Format {
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
		p.operations.quantizeWeights(p.codes, p.scales, weights)
		codes := p.codes
		for g, scale := range p.scales {
			group := block[g*fullGroupBytes:]
			binary.LittleEndian.PutUint16(group[2*lane:], scale)
			target := group[scaleBytes+lane*quadColumns:]
			for quad := 0; quad < groupQuads && len(codes) > 0; quad++ {
				copy(target[quad*quadBytes:][:quadColumns], codes[:quadColumns])
				codes = codes[quadColumns:]
			}
		}
	case FP8:
		quantizeWeightsFP8(p.codes, p.floatScales, weights)
		storeFP8(block, lane, p.codes, p.floatScales)
	case Q4:
		p.operations.quantizeWeightsQ4(p.codes, p.scales, weights)
		if column := firstOverflowQ4(weights, p.scales); column >= 0 {
			return column
		}
		storeQ4(block, lane, p.codes, p.scales)
	case MXFP4:
		p.operations.quantizeWeightsMXFP4(p.codes, p.byteScales, weights)
		storeMXFP4(block, lane, p.codes, p.byteScales)
	}
	return -1
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
		case FP8:
			dst[c] = loadFP8(block, lane, c)
		case Q4:
			dst[c] = loadQ4(block, lane, c)
		case MXFP4:
			dst[c] = loadMXFP4(block, lane, c)
		}
	}
}
