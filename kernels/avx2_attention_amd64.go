//go:build !purego

package kernels

import "unsafe"

// attendBlockAVX2 computes t.block.
func attendBlockAVX2(t *AttentionTile, b KVBlock, scale float32, next KVBlock) {
	if b.KeyDim > mostHeadDim {
		attendBlockGeneric(t, b, scale, next)
		return
	}
	t.multiplyKeys(b, next, 4, kvProductAVX2)
	keyScales, valueScales := b.scalePointers()
	kvSoftmaxCallAVX2(t, scale, keyScales, valueScales)
	t.multiplyValues(b, next, 4, kvProductAVX2)
}

// scalePointers are the scales of keys and values, nil if the format has none.
func (b KVBlock) scalePointers() (keys, values *float32) {
	if b.Format != KVInt8 {
		return nil, nil
	}
	scales := b.scales()
	return &scales[0], &scales[KVBlockKeys]
}

// multiplyKeys stores q·k of all keys of the block into t.weights, at most mostRows at a time.
func (t *AttentionTile) multiplyKeys(b, next KVBlock, mostRows int, product func(p *kvProductArguments)) {
	for i := range t.Rows {
		t.pointers[i] = &t.Q[i][0]
	}
	weights := unsafe.SliceData(b.Data)
	p := &t.product
	*p = kvProductArguments{
		format: b.Format, stride: 4 * KVBlockKeys, columns: b.KeyDim, tiles: KVBlockKeys / kvTile, weights: weights,
		ahead: distance(weights, unsafe.SliceData(next.Data)),
	}
	for i := 0; i < t.Rows; i += p.rows {
		p.rows = powerOfTwo(min(t.Rows-i, mostRows))
		p.dst, p.x = &t.weights[i*KVBlockKeys], &t.pointers[i]
		product(p)
		p.ahead = 0 // the next block was asked for
	}
}

// multiplyValues stores Σ p·v into t.sums: rows that see the same keys together.
func (t *AttentionTile) multiplyValues(b, next KVBlock, mostRows int, product func(p *kvProductArguments)) {
	p, padded := &t.product, paddedDim(b.ValueDim)
	values, column := b.values(), kvTile*b.Format.elementBytes()
	ahead := distance(unsafe.SliceData(values), unsafe.SliceData(next.values()))
	for from := 0; from < t.Rows; {
		first, end := int(t.From[from]), int(t.To[from])
		to := from + 1
		for to < t.Rows && t.From[to] == t.From[from] && t.To[to] == t.To[from] {
			to++
		}
		for i := from; i < to; i++ {
			t.pointers[i] = &t.weights[i*KVBlockKeys+first]
		}
		*p = kvProductArguments{
			format: b.Format, stride: 4 * padded, columns: end - first, tiles: padded / kvTile, weights: &values[first*column],
			skip: (KVBlockKeys - (end - first)) * column, ahead: ahead,
		}
		for i := from; i < to; i += p.rows {
			p.rows = powerOfTwo(min(to-i, mostRows))
			p.dst, p.x = &t.sums[i*padded], &t.pointers[i]
			product(p)
			p.ahead = 0
		}
		from, ahead = to, 0
	}
}

// distance is how many bytes one pointer lies behind another: for prefetching only.
func distance(from, to *byte) int {
	return int(uintptr(unsafe.Pointer(to)) - uintptr(unsafe.Pointer(from)))
}

// powerOfTwo is the largest power of two that is not above n, for n from 1 to 8.
func powerOfTwo(n int) int { return [...]int{0, 1, 2, 2, 4, 4, 4, 4, 8}[n] }

//go:noinline
func kvSoftmaxCallAVX2(t *AttentionTile, scale float32, keyScales, valueScales *float32) {
	kvSoftmaxAVX2(&t.weights[0], &t.From[0], &t.To[0], &t.block.Max[0], &t.block.Sum[0], t.Rows, scale, keyScales, valueScales)
}

//go:noinline
func mergeFactorsVectors(earlier, later *AttentionState) {
	mergeFactorsAVX2(&earlier.Max[0], &earlier.Sum[0], &later.Max[0], &later.Sum[0], &earlier.factor[0], &earlier.laterFactor[0])
}

//go:noinline
func kvProductAVX2(p *kvProductArguments) {
	switch p.format {
	case KVF32:
		switch p.rows {
		case 1:
			kvProductF32Rows1AVX2(p.dst, p.stride, p.x, p.columns, p.tiles, p.weights, p.skip, p.ahead)
		case 2:
			kvProductF32Rows2AVX2(p.dst, p.stride, p.x, p.columns, p.tiles, p.weights, p.skip, p.ahead)
		case 4:
			kvProductF32Rows4AVX2(p.dst, p.stride, p.x, p.columns, p.tiles, p.weights, p.skip, p.ahead)
		}
	case KVBF16:
		switch p.rows {
		case 1:
			kvProductBF16Rows1AVX2(p.dst, p.stride, p.x, p.columns, p.tiles, p.weights, p.skip, p.ahead)
		case 2:
			kvProductBF16Rows2AVX2(p.dst, p.stride, p.x, p.columns, p.tiles, p.weights, p.skip, p.ahead)
		case 4:
			kvProductBF16Rows4AVX2(p.dst, p.stride, p.x, p.columns, p.tiles, p.weights, p.skip, p.ahead)
		}
	case KVInt8:
		switch p.rows {
		case 1:
			kvProductInt8Rows1AVX2(p.dst, p.stride, p.x, p.columns, p.tiles, p.weights, p.skip, p.ahead)
		case 2:
			kvProductInt8Rows2AVX2(p.dst, p.stride, p.x, p.columns, p.tiles, p.weights, p.skip, p.ahead)
		case 4:
			kvProductInt8Rows4AVX2(p.dst, p.stride, p.x, p.columns, p.tiles, p.weights, p.skip, p.ahead)
		}
	}
}
