package kernels

import "errors"

// ErrNotFinite is the error of a row that holds an infinity or a NaN.
var ErrNotFinite = errors.New("row is not finite")

// ErrOverflow is the error of a row whose weighted expert output leaves the fixed-point range (DESIGN §2).
var ErrOverflow = errors.New("expert contribution out of range")

// Activations are rows prepared for products with a format: Values [Rows, Columns] for the float formats, or Codes
// [Rows, PaddedColumns] (padded to a multiple of 4 with zeros) and Scales [Rows, Groups] for the quantised ones.
type Activations struct {
	Rows, Columns int
	Quantized     bool
	Values        []float32
	Codes         []int8
	Scales        []float32
}

// Reset makes room for rows of columns, reusing memory; the contents are undefined.
func (a *Activations) Reset(quantized bool, rows, columns int) { panic("skeleton") }

// PaddedColumns is the distance between the codes of two rows.
func PaddedColumns(columns int) int { return (columns + 3) &^ 3 }

// Groups is the number of scales of a row.
func Groups(columns int) int { return (columns + GroupColumns - 1) / GroupColumns }
