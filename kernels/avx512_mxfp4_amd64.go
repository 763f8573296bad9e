//go:build !purego

package kernels

// mxfp4Call512 is q4Call512 for mxfp4: t's groups of 32 columns are halves of the packed ones, beginning with a first half.
//
//go:noinline
func mxfp4Call512(t *q4Tile, acc *float32, stride int, codes **int8, terms *uint64) {
	column, groups, lastQuads := t.group*MXFP4GroupColumns, (t.groups+1)/2, t.lastQuads
	if t.groups%2 == 0 {
		lastQuads += mxfp4HalfQuads
	}
	switch t.rows {
	case 1:
		mxfp4Rows1AVX512(acc, 4*stride, t.load, t.store, t.weights, codes, column, terms, groups, lastQuads)
	case 2:
		mxfp4Rows2AVX512(acc, 4*stride, t.load, t.store, t.weights, codes, column, terms, groups, lastQuads)
	case 3:
		mxfp4Rows3AVX512(acc, 4*stride, t.load, t.store, t.weights, codes, column, terms, groups, lastQuads)
	case 4:
		mxfp4Rows4AVX512(acc, 4*stride, t.load, t.store, t.weights, codes, column, terms, groups, lastQuads)
	case 5:
		mxfp4Rows5AVX512(acc, 4*stride, t.load, t.store, t.weights, codes, column, terms, groups, lastQuads)
	case 6:
		mxfp4Rows6AVX512(acc, 4*stride, t.load, t.store, t.weights, codes, column, terms, groups, lastQuads)
	case 7:
		mxfp4Rows7AVX512(acc, 4*stride, t.load, t.store, t.weights, codes, column, terms, groups, lastQuads)
	case 8:
		mxfp4Rows8AVX512(acc, 4*stride, t.load, t.store, t.weights, codes, column, terms, groups, lastQuads)
	}
}
