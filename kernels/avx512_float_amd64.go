//go:build !purego

package kernels

// multiplyFloatAVX512 multiplies block by block, one panel with all rows before the next if there are several tiles of rows.
func multiplyFloatAVX512(dst []float32, stride int, m Matrix, a *Activations, rows []int32, from, to int) {
	if a.Columns == 0 {
		multiplyFloatGeneric(dst, stride, m, a, rows, from, to)
		return
	}
	step := callColumnF32
	switch m.Format {
	case BF16:
		step = callColumnB16
	case FP8:
		step = fp8CallGroups * FP8GroupColumns
	}
	if len(rows) > floatTileRows512 {
		step = PanelColumns
	}
	for first := 0; first < len(rows); first += chunkRows512 {
		chunk := rows[first:min(first+chunkRows512, len(rows))]
		var x [chunkRows512]*float32
		for i, row := range chunk {
			x[i] = &a.values(int(row))[0]
		}
		for output := from; output < to; output += BlockOutputs {
			floatBlock512(dst[first*stride+output:], stride, m, output, x[:len(chunk)], step, outputMask(to-output))
		}
	}
}

func floatBlock512(dst []float32, stride int, m Matrix, output int, x []*float32, step int, mask uint32) {
	block := m.block(output)
	t := floatTile{store: mask}
	for t.column = 0; t.column < m.Columns; t.column += step {
		t.columns = min(step, m.Columns-t.column)
		weights := &block[blockBytes(m.Format, t.column)]
		for done := 0; done < len(x); done += t.rows {
			t.rows = tileRows(len(x)-done, floatTileRows512)
			switch m.Format {
			case FP8:
				fp8Call512(&t, &dst[done*stride], stride, weights, &x[done])
			case BF16:
				bf16Call512(&t, &dst[done*stride], stride, weights, &x[done])
			default:
				f32Call512(&t, &dst[done*stride], stride, weights, &x[done])
			}
		}
		t.load = mask // the next columns add to these sums
	}
}

// floatTile is what the calls of a panel share, and the number of rows of the next one.
type floatTile struct {
	load, store     uint32
	column, columns int
	rows            int
}

//go:noinline
func f32Call512(t *floatTile, acc *float32, stride int, weights *byte, x **float32) {
	switch t.rows {
	case 1:
		f32Rows1AVX512(acc, 4*stride, t.load, t.store, weights, x, t.column, t.columns)
	case 2:
		f32Rows2AVX512(acc, 4*stride, t.load, t.store, weights, x, t.column, t.columns)
	case 3:
		f32Rows3AVX512(acc, 4*stride, t.load, t.store, weights, x, t.column, t.columns)
	case 4:
		f32Rows4AVX512(acc, 4*stride, t.load, t.store, weights, x, t.column, t.columns)
	case 5:
		f32Rows5AVX512(acc, 4*stride, t.load, t.store, weights, x, t.column, t.columns)
	case 6:
		f32Rows6AVX512(acc, 4*stride, t.load, t.store, weights, x, t.column, t.columns)
	case 7:
		f32Rows7AVX512(acc, 4*stride, t.load, t.store, weights, x, t.column, t.columns)
	case 8:
		f32Rows8AVX512(acc, 4*stride, t.load, t.store, weights, x, t.column, t.columns)
	}
}

//go:noinline
func bf16Call512(t *floatTile, acc *float32, stride int, weights *byte, x **float32) {
	switch t.rows {
	case 1:
		bf16Rows1AVX512(acc, 4*stride, t.load, t.store, weights, x, t.column, t.columns)
	case 2:
		bf16Rows2AVX512(acc, 4*stride, t.load, t.store, weights, x, t.column, t.columns)
	case 3:
		bf16Rows3AVX512(acc, 4*stride, t.load, t.store, weights, x, t.column, t.columns)
	case 4:
		bf16Rows4AVX512(acc, 4*stride, t.load, t.store, weights, x, t.column, t.columns)
	case 5:
		bf16Rows5AVX512(acc, 4*stride, t.load, t.store, weights, x, t.column, t.columns)
	case 6:
		bf16Rows6AVX512(acc, 4*stride, t.load, t.store, weights, x, t.column, t.columns)
	case 7:
		bf16Rows7AVX512(acc, 4*stride, t.load, t.store, weights, x, t.column, t.columns)
	case 8:
		bf16Rows8AVX512(acc, 4*stride, t.load, t.store, weights, x, t.column, t.columns)
	}
}

//go:noinline
func fp8Call512(t *floatTile, acc *float32, stride int, weights *byte, x **float32) {
	switch t.rows {
	case 1:
		fp8Rows1AVX512(acc, 4*stride, t.load, t.store, weights, x, t.column, t.columns)
	case 2:
		fp8Rows2AVX512(acc, 4*stride, t.load, t.store, weights, x, t.column, t.columns)
	case 3:
		fp8Rows3AVX512(acc, 4*stride, t.load, t.store, weights, x, t.column, t.columns)
	case 4:
		fp8Rows4AVX512(acc, 4*stride, t.load, t.store, weights, x, t.column, t.columns)
	case 5:
		fp8Rows5AVX512(acc, 4*stride, t.load, t.store, weights, x, t.column, t.columns)
	case 6:
		fp8Rows6AVX512(acc, 4*stride, t.load, t.store, weights, x, t.column, t.columns)
	case 7:
		fp8Rows7AVX512(acc, 4*stride, t.load, t.store, weights, x, t.column, t.columns)
	case 8:
		fp8Rows8AVX512(acc, 4*stride, t.load, t.store, weights, x, t.column, t.columns)
	}
}
