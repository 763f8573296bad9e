//go:build !purego

package kernels

// attendBlock512 computes t.block.
func attendBlock512(t *AttentionTile, b KVBlock, scale float32, next KVBlock) {
	if b.KeyDim > mostHeadDim {
		attendBlockGeneric(t, b, scale, next)
		return
	}
	t.multiplyKeys(b, next, 8, kvProductAVX512)
	for i := range t.Rows {
		t.seen[i] = 1<<t.To[i] - 1<<t.From[i]
	}
	keyScales, valueScales := b.scalePointers()
	kvSoftmaxCall512(t, scale, keyScales, valueScales)
	t.multiplyValues(b, next, 8, kvProductAVX512)
}

//go:noinline
func kvSoftmaxCall512(t *AttentionTile, scale float32, keyScales, valueScales *float32) {
	kvSoftmaxAVX512(&t.weights[0], &t.seen[0], &t.block.Max[0], &t.block.Sum[0], t.Rows, scale, keyScales, valueScales)
}

//go:noinline
func kvProductAVX512(p *kvProductArguments) {
	switch p.format {
	case KVF32:
		switch p.rows {
		case 1:
			kvProductF32Rows1AVX512(p.dst, p.stride, p.x, p.columns, p.tiles, p.weights, p.skip, p.ahead)
		case 2:
			kvProductF32Rows2AVX512(p.dst, p.stride, p.x, p.columns, p.tiles, p.weights, p.skip, p.ahead)
		case 4:
			kvProductF32Rows4AVX512(p.dst, p.stride, p.x, p.columns, p.tiles, p.weights, p.skip, p.ahead)
		case 8:
			kvProductF32Rows8AVX512(p.dst, p.stride, p.x, p.columns, p.tiles, p.weights, p.skip, p.ahead)
		}
	case KVBF16:
		switch p.rows {
		case 1:
			kvProductBF16Rows1AVX512(p.dst, p.stride, p.x, p.columns, p.tiles, p.weights, p.skip, p.ahead)
		case 2:
			kvProductBF16Rows2AVX512(p.dst, p.stride, p.x, p.columns, p.tiles, p.weights, p.skip, p.ahead)
		case 4:
			kvProductBF16Rows4AVX512(p.dst, p.stride, p.x, p.columns, p.tiles, p.weights, p.skip, p.ahead)
		case 8:
			kvProductBF16Rows8AVX512(p.dst, p.stride, p.x, p.columns, p.tiles, p.weights, p.skip, p.ahead)
		}
	case KVInt8:
		switch p.rows {
		case 1:
			kvProductInt8Rows1AVX512(p.dst, p.stride, p.x, p.columns, p.tiles, p.weights, p.skip, p.ahead)
		case 2:
			kvProductInt8Rows2AVX512(p.dst, p.stride, p.x, p.columns, p.tiles, p.weights, p.skip, p.ahead)
		case 4:
			kvProductInt8Rows4AVX512(p.dst, p.stride, p.x, p.columns, p.tiles, p.weights, p.skip, p.ahead)
		case 8:
			kvProductInt8Rows8AVX512(p.dst, p.stride, p.x, p.columns, p.tiles, p.weights, p.skip, p.ahead)
		}
	}
}
