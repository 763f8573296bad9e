//go:build !purego

package kernels

// q4CallGroups is how many groups one assembly call takes at most; even, so that a call begins with a group of activations.
const q4CallGroups = callBytes / q4GroupBytes &^ 1

func q4TileAVX2(t tile, block []byte, a *Activations) {
	groups := q4Groups(a.Columns)
	for g := 0; g < groups; g += q4CallGroups {
		n, lastQuads := q4CallGroups, q4GroupQuads
		if g+n >= groups {
			n = groups - g
			lastQuads = (a.Columns - (groups-1)*Q4GroupColumns + quadColumns - 1) / quadColumns
		}
		q4CallAVX2(t, &block[g*q4GroupBytes], a, g, n, lastQuads)
	}
}

//go:noinline
func q4CallAVX2(t tile, weights *byte, a *Activations, group, groups, lastQuads int) {
	acc := &t.sums[0]
	codes := func(i int) *int8 { return &a.codes(int(t.rows[i]))[group*Q4GroupColumns] }
	scales := func(i int) *float32 { return &a.scales(int(t.rows[i]))[group*Q4GroupColumns/GroupColumns] }
	switch len(t.rows) {
	case 1:
		q4Rows1AVX2(acc, weights, codes(0), scales(0), groups, lastQuads)
	case 2:
		q4Rows2AVX2(acc, 4*t.stride, weights, codes(0), scales(0), codes(1), scales(1), groups, lastQuads)
	case 4:
		q4Rows4AVX2(acc, 4*t.stride, weights, codes(0), scales(0), codes(1), scales(1), codes(2), scales(2), codes(3), scales(3),
			groups, lastQuads)
	}
}

func quantizeWeightsQ4Vectors(codes []byte, scales []uint16, weights []float32) {
	const step = callElements / 16 / Q4GroupColumns // 20 candidates are tried for each weight
	whole := len(weights) / Q4GroupColumns
	for g := 0; g < whole; g += step {
		quantizeWeightsQ4Call(codes[g*Q4GroupColumns:], scales[g:], weights[g*Q4GroupColumns:], min(step, whole-g))
	}
	quantizeWeightsQ4Generic(codes[whole*Q4GroupColumns:], scales[whole:], weights[whole*Q4GroupColumns:])
}

//go:noinline
func quantizeWeightsQ4Call(codes []byte, scales []uint16, weights []float32, groups int) {
	quantizeWeightsQ4AVX2(&codes[0], &scales[0], &weights[0], groups)
}
