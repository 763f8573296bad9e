package kernels

import "fmt"

// Assembly has no bounds checks, so the methods of Set check lengths first. A mismatch is a programming error and panics.

func panicf(format string, arguments ...any) { panic("kernels: " + fmt.Sprintf(format, arguments...)) }

func mustEqual(what string, got, want int) {
	if got != want {
		panicf("%s is %d, want %d", what, got, want)
	}
}

func checkMultiply(dst, stride int, m Matrix, a *Activations, rows []int32, from, to int) {
	mustEqual("size of the matrix", len(m.Data), MatrixBytes(m.Format, m.Outputs, m.Columns))
	mustEqual("columns of the activations", a.Columns, m.Columns)
	if a.Quantized != m.Format.Quantized() {
		panicf("activations with quantized=%t for a %v matrix", a.Quantized, m.Format)
	}
	if a.Quantized {
		mustEqual("number of codes", len(a.Codes), a.Rows*PaddedColumns(a.Columns))
		mustEqual("number of scales", len(a.Scales), a.Rows*Groups(a.Columns))
	} else {
		mustEqual("number of values", len(a.Values), a.Rows*a.Columns)
	}
	if from < 0 || from%BlockOutputs != 0 || to > m.Outputs || to%BlockOutputs != 0 && to != m.Outputs {
		panicf("outputs [%d, %d) of %d are not whole blocks of %d", from, to, m.Outputs, BlockOutputs)
	}
	if stride < to || dst < (len(rows)-1)*stride+to {
		panicf("destination of %d elements with stride %d for %d rows of %d outputs", dst, stride, len(rows), to)
	}
	for _, r := range rows {
		if r < 0 || int(r) >= a.Rows {
			panicf("row %d of %d", r, a.Rows)
		}
	}
}
