//go:build !purego

package kernels

const (
	// callBytes is how much packed weight one assembly call reads at most: about 30 µs when it comes from memory.
	callBytes     = 256 << 10
	callGroups    = callBytes / fullGroupBytes
	callColumnF32 = callBytes / (4 * BlockOutputs) // whole panels
	callColumnB16 = callBytes / (2 * BlockOutputs)
)

// tile is some rows of a product with one block of outputs: where the sums of 32 outputs per row are added up.
type tile struct {
	sums   []float32
	stride int // elements between rows
	rows   []int32
}

// clear makes the sums zeros.
func (t tile) clear() {
	for i := range t.rows {
		clear(t.sums[i*t.stride:][:BlockOutputs])
	}
}

// copyTo stores the first count sums of each row.
func (t tile) copyTo(dst []float32, stride, count int) {
	for i := range t.rows {
		copy(dst[i*stride:][:count], t.sums[i*t.stride:])
	}
}

// multiplyIntegerAVX2 (q8, q4 and mxfp4) takes tiles of 4, 2 and 1 rows. Sums are kept in dst; those of a last block of fewer outputs in a buffer.
func multiplyIntegerAVX2(dst []float32, stride int, m Matrix, a *Activations, rows []int32, from, to int) {
	var buffer [4 * BlockOutputs]float32
	for output := from; output < to; output += BlockOutputs {
		block, whole := m.block(output), to-output >= BlockOutputs
		for done, n := 0, 0; done < len(rows); done += n {
			switch left := len(rows) - done; {
			case left >= 4:
				n = 4
			default:
				n = min(left, 2)
			}
			target := dst[done*stride+output:]
			if whole {
				integerTileAVX2(tile{target, stride, rows[done : done+n]}, block, a, m.Format)
				continue
			}
			t := tile{buffer[:], BlockOutputs, rows[done : done+n]}
			integerTileAVX2(t, block, a, m.Format)
			t.copyTo(target, stride, to-output)
		}
	}
}

func integerTileAVX2(t tile, block []byte, a *Activations, f Format) {
	t.clear()
	switch f {
	case Q4:
		q4TileAVX2(t, block, a)
	case MXFP4:
		mxfp4TileAVX2(t, block, a)
	default:
		q8TileAVX2(t, block, a)
	}
}

func q8TileAVX2(t tile, block []byte, a *Activations) {
	groups := Groups(a.Columns)
	for g := 0; g < groups; g += callGroups {
		n, lastQuads := callGroups, groupQuads
		if g+n >= groups {
			n = groups - g
			lastQuads = (a.Columns - (groups-1)*GroupColumns + quadColumns - 1) / quadColumns
		}
		q8CallAVX2(t, &block[g*fullGroupBytes], a, g, n, lastQuads)
	}
}

//go:noinline
func q8CallAVX2(t tile, weights *byte, a *Activations, group, groups, lastQuads int) {
	acc := &t.sums[0]
	codes := func(i int) *int8 { return &a.codes(int(t.rows[i]))[group*GroupColumns] }
	scales := func(i int) *float32 { return &a.scales(int(t.rows[i]))[group] }
	switch len(t.rows) {
	case 1:
		q8Rows1AVX2(acc, weights, codes(0), scales(0), groups, lastQuads)
	case 2:
		q8Rows2AVX2(acc, 4*t.stride, weights, codes(0), scales(0), codes(1), scales(1), groups, lastQuads)
	case 4:
		q8Rows4AVX2(acc, 4*t.stride, weights, codes(0), scales(0), codes(1), scales(1), codes(2), scales(2), codes(3), scales(3),
			groups, lastQuads)
	}
}

// multiplyFloatAVX2 takes tiles of 3, 2 and 1 rows.
func multiplyFloatAVX2(dst []float32, stride int, m Matrix, a *Activations, rows []int32, from, to int) {
	var buffer [3 * BlockOutputs]float32
	for output := from; output < to; output += BlockOutputs {
		block, whole := m.block(output), to-output >= BlockOutputs
		for done, n := 0, 0; done < len(rows); done += n {
			switch n = min(3, len(rows)-done); {
			case len(rows)-done == 4:
				n = 2 // 2 and 2 rather than 3 and 1
			}
			target := dst[done*stride+output:]
			if whole {
				floatTileAVX2(tile{target, stride, rows[done : done+n]}, block, a, m.Format)
				continue
			}
			t := tile{buffer[:], BlockOutputs, rows[done : done+n]}
			floatTileAVX2(t, block, a, m.Format)
			t.copyTo(target, stride, to-output)
		}
	}
}

func floatTileAVX2(t tile, block []byte, a *Activations, f Format) {
	t.clear()
	if f == FP8 {
		fp8TileAVX2(t, block, a)
		return
	}
	size, step := blockBytes(f, 1), callColumnF32
	if f == BF16 {
		step = callColumnB16
	}
	for c := 0; c < a.Columns; c += step {
		n := min(step, a.Columns-c)
		if f == BF16 {
			bf16CallAVX2(t, &block[c*size], a, c, n)
		} else {
			f32CallAVX2(t, &block[c*size], a, c, n)
		}
	}
}

//go:noinline
func f32CallAVX2(t tile, weights *byte, a *Activations, column, columns int) {
	acc := &t.sums[0]
	x := func(i int) *float32 { return &a.values(int(t.rows[i]))[column] }
	switch len(t.rows) {
	case 1:
		f32Rows1AVX2(acc, weights, x(0), columns)
	case 2:
		f32Rows2AVX2(acc, 4*t.stride, weights, x(0), x(1), columns)
	case 3:
		f32Rows3AVX2(acc, 4*t.stride, weights, x(0), x(1), x(2), columns)
	}
}

//go:noinline
func bf16CallAVX2(t tile, weights *byte, a *Activations, column, columns int) {
	acc := &t.sums[0]
	x := func(i int) *float32 { return &a.values(int(t.rows[i]))[column] }
	switch len(t.rows) {
	case 1:
		bf16Rows1AVX2(acc, weights, x(0), columns)
	case 2:
		bf16Rows2AVX2(acc, 4*t.stride, weights, x(0), x(1), columns)
	case 3:
		bf16Rows3AVX2(acc, 4*t.stride, weights, x(0), x(1), x(2), columns)
	}
}
