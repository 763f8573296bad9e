package checkpoint

import "fmt"

// Tensor is a tensor inside a mapped file. Data stays valid until the file is closed.
type Tensor struct {
	Name  string
	File  string // path of the file
	DType DType
	Shape []int
	Data  []byte // mapped, read-only; little-endian elements, the last dimension running fastest

	scales *Tensor // of an F8E4M3 matrix
	file   *TensorFile
	offset int64 // of Data in the file
}

// Rows and Columns see the tensor as a matrix: all dimensions but the first are flattened, and a vector or scalar is one row.
func (t Tensor) Rows() int {
	if len(t.Shape) < 2 {
		return 1
	}
	return t.Shape[0]
}

// Columns is the number of elements of a row.
func (t Tensor) Columns() int {
	dimensions := t.Shape
	if len(dimensions) > 1 {
		dimensions = dimensions[1:]
	}
	columns := 1
	for _, n := range dimensions {
		columns *= n
	}
	return columns
}

// Row stores row i (all dimensions but the first flattened; a vector is one row) as float32 into dst, which must have Columns()
// elements. It panics if i, len(dst) or the element type is wrong: Open and DType.Readable tell before.
func (t Tensor) Row(i int, dst []float32) {
	if columns := t.Columns(); len(dst) != columns {
		panic(fmt.Sprintf("checkpoint: a row of %s has %d columns, not %d", t.Name, columns, len(dst)))
	}
	t.RowRange(i, 0, dst)
}

// RowRange stores the columns [from, from+len(dst)) of row i. It panics like Row.
func (t Tensor) RowRange(i, from int, dst []float32) {
	rows, columns := t.Rows(), t.Columns()
	if i < 0 || i >= rows || from < 0 || from+len(dst) > columns {
		panic(fmt.Sprintf("checkpoint: columns [%d, %d) of row %d of %s, which has %d rows of %d columns", from, from+len(dst), i, t.Name, rows, columns))
	}
	if t.scales != nil {
		t.blockFP8Range(i, from, dst)
		return
	}
	size := t.DType.size()
	start := (i*columns + from) * size
	convert(t.DType, dst, t.Data[start:start+len(dst)*size])
}

// Float32 gives all elements as float32. It panics if the element type is none of BF16, F16, F32, and F8E4M3 with block scales.
func (t Tensor) Float32() []float32 {
	dst := make([]float32, t.Rows()*t.Columns())
	if t.scales != nil {
		for i := range t.Rows() {
			t.Row(i, dst[i*t.Columns():(i+1)*t.Columns()])
		}
		return dst
	}
	convert(t.DType, dst, t.Data)
	return dst
}
