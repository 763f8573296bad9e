package kernels

import "math"

var negativeInfinity = float32(math.Inf(-1))

// storeKV is the packing of one key and value for all implementations.
func storeKV(b KVBlock, at int, key, value []float32) {
	switch b.Format {
	case KVF32:
		scatterKV(b, at, key, value, func(x float32) float32 { return x })
	case KVBF16:
		scatterKV(b, at, key, value, toBF16)
	case KVInt8:
		scales := b.scales()
		keyScale, valueScale := kvScale(key), kvScale(value)
		scales[at], scales[KVBlockKeys+at] = keyScale, valueScale
		keys, values := elements[int8](b.keys()), elements[int8](b.values())
		for d, x := range key {
			keys[b.keyAt(at, d)] = kvCode(x, keyScale)
		}
		for d, x := range value {
			values[b.valueAt(at, d)] = kvCode(x, valueScale)
		}
	}
}

func scatterKV[T float32 | uint16](b KVBlock, at int, key, value []float32, convert func(float32) T) {
	keys, values := elements[T](b.keys()), elements[T](b.values())
	for d, x := range key {
		keys[b.keyAt(at, d)] = convert(x)
	}
	for d, x := range value {
		values[b.valueAt(at, d)] = convert(x)
	}
}

// kvScale is maxabs/127, 0 if that is denormal, NaN if x is not finite.
func kvScale(x []float32) float32 {
	var largest uint32
	for _, v := range x {
		largest = max(largest, math.Float32bits(v)&0x7fffffff)
	}
	if largest >= 0x7f800000 {
		return float32(math.NaN())
	}
	if scale := math.Float32frombits(largest) / 127; scale >= smallestNormal {
		return scale
	}
	return 0
}

// kvCode is round-half-even(x/scale), 0 where the scale is 0 or NaN.
func kvCode(x, scale float32) int8 {
	if scale > 0 {
		return int8(int32(roundEven(x / scale)))
	}
	return 0
}

// column gives the kvTile outputs of one column of a tile that begins at an element, without the scales of KVInt8.
func (f KVFormat) column(w *[kvTile]float32, data []byte, at int) {
	switch f {
	case KVF32:
		copy(w[:], elements[float32](data)[at:])
	case KVBF16:
		for i, v := range elements[uint16](data)[at : at+kvTile] {
			w[i%2*(kvTile/2)+i/2] = fromBF16(v)
		}
	case KVInt8:
		for i, v := range elements[int8](data)[at : at+kvTile] {
			w[i] = float32(v)
		}
	}
}

// attendBlockGeneric computes t.block.
func attendBlockGeneric(t *AttentionTile, b KVBlock, scale float32, _ KVBlock) {
	var w [kvTile]float32
	clear(t.weights)
	for tile := range KVBlockKeys / kvTile {
		for d := range b.KeyDim {
			b.Format.column(&w, b.keys(), (tile*b.KeyDim+d)*kvTile)
			for i := range t.Rows {
				addKVColumn(t.weights[i*KVBlockKeys+tile*kvTile:], t.Q[i][d], w[:])
			}
		}
	}
	for i := range t.Rows {
		from, to := int(t.From[i]), int(t.To[i])
		p := (*[KVBlockKeys]float32)(t.weights[i*KVBlockKeys:])
		clear(p[:from])
		clear(p[to:])
		for key := from; key < to; key++ {
			if b.Format == KVInt8 {
				p[key] *= b.scales()[key]
			}
			p[key] *= scale
		}
		most := largest(p[from:to])
		if most == 0 {
			most = 0 // not -0
		}
		expMinusGeneric(p[from:to], most)
		t.block.Max[i], t.block.Sum[i] = most, blockSum(p)
		if b.Format == KVInt8 {
			for key := from; key < to; key++ {
				p[key] *= b.scales()[KVBlockKeys+key]
			}
		}
	}
	clear(t.sums)
	padded := paddedDim(b.ValueDim)
	for tile := range padded / kvTile {
		for key := range KVBlockKeys {
			b.Format.column(&w, b.values(), (tile*KVBlockKeys+key)*kvTile)
			for i := range t.Rows {
				if int(t.From[i]) <= key && key < int(t.To[i]) {
					addKVColumn(t.sums[i*padded+tile*kvTile:], t.weights[i*KVBlockKeys+key], w[:min(kvTile, b.ValueDim-tile*kvTile)])
				}
			}
		}
	}
}

// addKVColumn adds a column to the sums of its outputs, one FMA each.
func addKVColumn(sums []float32, x float32, w []float32) {
	for i, v := range w {
		sums[i] = FMA(x, v, sums[i])
	}
}

// blockSum adds 64 elements in 16 lanes.
func blockSum(p *[KVBlockKeys]float32) float32 {
	sums := laneSums(p[:lanes])
	for from := lanes; from < len(p); from += lanes {
		for j := range sums {
			sums[j] += p[from+j]
		}
	}
	return sums.total()
}

// mergeFactorsGeneric folds later's Max and Sum into earlier's and fills the factors, for all rows.
func mergeFactorsGeneric(earlier, later *AttentionState) {
	for i, m := range earlier.Max {
		if later.Max[i] > m {
			m = later.Max[i]
		}
		a, b := Exp(earlier.Max[i]-m), Exp(later.Max[i]-m)
		earlier.factor[i], earlier.laterFactor[i] = a, b
		earlier.Max[i], earlier.Sum[i] = m, FMA(later.Sum[i], b, float32(earlier.Sum[i]*a))
	}
}
