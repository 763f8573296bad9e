//go:build !purego

package kernels

// mxfp4CallGroups is how many groups one assembly call takes at most.
const mxfp4CallGroups = callBytes / mxfp4GroupBytes

func mxfp4TileAVX2(t tile, block []byte, a *Activations) {
	groups := Groups(a.Columns)
	for g := 0; g < groups; g += mxfp4CallGroups {
		n, lastQuads := mxfp4CallGroups, groupQuads
		if g+n >= groups {
			n = groups - g
			lastQuads = (a.Columns - (groups-1)*GroupColumns + quadColumns - 1) / quadColumns
		}
		mxfp4CallAVX2(t, &block[g*mxfp4GroupBytes], a, g, n, lastQuads)
	}
}

//go:noinline
func mxfp4CallAVX2(t tile, weights *byte, a *Activations, group, groups, lastQuads int) {
	acc := &t.sums[0]
	codes := func(i int) *int8 { return &a.codes(int(t.rows[i]))[group*GroupColumns] }
	scales := func(i int) *float32 { return &a.scales(int(t.rows[i]))[group] }
	switch len(t.rows) {
	case 1:
		mxfp4Rows1AVX2(acc, weights, codes(0), scales(0), groups, lastQuads)
	case 2:
		mxfp4Rows2AVX2(acc, 4*t.stride, weights, codes(0), scales(0), codes(1), scales(1), groups, lastQuads)
	case 4:
		mxfp4Rows4AVX2(acc, 4*t.stride, weights, codes(0), scales(0), codes(1), scales(1), codes(2), scales(2), codes(3), scales(3),
			groups, lastQuads)
	}
}

func quantizeWeightsMXFP4Vectors(codes, scales []byte, weights []float32) {
	const step = callElements / 4 / MXFP4GroupColumns // 3 exponents are tried for each weight
	whole := len(weights) / MXFP4GroupColumns
	for g := 0; g < whole; g += step {
		quantizeWeightsMXFP4Call(codes[g*MXFP4GroupColumns:], scales[g:], weights[g*MXFP4GroupColumns:], min(step, whole-g))
	}
	quantizeWeightsMXFP4Generic(codes[whole*MXFP4GroupColumns:], scales[whole:], weights[whole*MXFP4GroupColumns:])
}

//go:noinline
func quantizeWeightsMXFP4Call(codes, scales []byte, weights []float32, groups int) {
	quantizeWeightsMXFP4AVX2(&codes[0], &scales[0], &weights[0], groups)
}
