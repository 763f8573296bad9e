//go:build !purego

package kernels

// fp8CallGroups is how many groups one assembly call takes at most.
const fp8CallGroups = callBytes / fp8GroupBytes

func fp8TileAVX2(t tile, block []byte, a *Activations) {
	const step = fp8CallGroups * FP8GroupColumns
	for c := 0; c < a.Columns; c += step {
		fp8CallAVX2(t, &block[c/FP8GroupColumns*fp8GroupBytes], a, c, min(step, a.Columns-c))
	}
}

//go:noinline
func fp8CallAVX2(t tile, weights *byte, a *Activations, column, columns int) {
	acc := &t.sums[0]
	x := func(i int) *float32 { return &a.values(int(t.rows[i]))[column] }
	switch len(t.rows) {
	case 1:
		fp8Rows1AVX2(acc, weights, x(0), columns)
	case 2:
		fp8Rows2AVX2(acc, 4*t.stride, weights, x(0), x(1), columns)
	case 3:
		fp8Rows3AVX2(acc, 4*t.stride, weights, x(0), x(1), x(2), columns)
	}
}
