package kernels

import "errors"

// ErrNotFinite is the error of a row that holds an infinity or a NaN.
var ErrNotFinite = errors.New("row is not finite")

// ErrOverflow is the error of a row whose weighted expert output leaves the fixed-point range (DESIGN §2).
var ErrOverflow = errors.New("expert contribution out of range")

// Activations are rows prepared for products with a format: Values [Rows, Columns] for the float formats, or Codes
// [Rows, PaddedColumns] (padded to a multiple of 4 with zeros) and Scales [Rows, Groups] for the quantised ones. Codes lie
// in [-127, 127]: -128 would make products differ between implementations.
type Activations struct {
	Rows, Columns int
	Quantized     bool
	Values        []float32
	Codes         []int8
	Scales        []float32
}

// Reset makes room for rows of columns, reusing memory; the contents are undefined.
func (a *Activations) Reset(quantized bool, rows, columns int) {
	a.Rows, a.Columns, a.Quantized = rows, columns, quantized
	if quantized {
		a.Values = a.Values[:0]
		a.Codes = resize(a.Codes, rows*PaddedColumns(columns))
		a.Scales = resize(a.Scales, rows*Groups(columns))
		return
	}
	a.Values = resize(a.Values, rows*columns)
	a.Codes, a.Scales = a.Codes[:0], a.Scales[:0]
}

func resize[T any](s []T, n int) []T {
	if cap(s) < n {
		return make([]T, n)
	}
	return s[:n]
}

// values is row r of the float kind.
func (a *Activations) values(r int) []float32 {
	return a.Values[r*a.Columns : (r+1)*a.Columns : (r+1)*a.Columns]
}

// codes is row r of the quantised kind, with its padding.
func (a *Activations) codes(r int) []int8 {
	n := PaddedColumns(a.Columns)
	return a.Codes[r*n : (r+1)*n : (r+1)*n]
}

// scales are the scales of row r of the quantised kind.
func (a *Activations) scales(r int) []float32 {
	n := Groups(a.Columns)
	return a.Scales[r*n : (r+1)*n : (r+1)*n]
}

// PaddedColumns is the distance between the codes of two rows.
func PaddedColumns(columns int) int { return (columns + 3) &^ 3 }

// Groups is the number of scales of a row.
func Groups(columns int) int { return (columns + GroupColumns - 1) / GroupColumns }
