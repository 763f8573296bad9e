//go:build !purego

package kernels

const (
	q4TileRows512      = 8  // rows that are multiplied with weights as they are packed
	q4PanelTileRows512 = 7  // at most, if there are more; 4 at least
	q4PanelGroups512   = 16 // 18 KB, which stay in the first cache while several tiles of rows use them
	// q4PanelGroupBytes512 is the size of a group that was taken apart: 32 float32 scales, and a byte for each code.
	q4PanelGroupBytes512 = 4*BlockOutputs + Q4GroupColumns*BlockOutputs
)

// multiplyQ4AVX512 (q4 and mxfp4) keeps the terms of some rows (scales, and where their integer sums start) on the stack, and for more rows than
// a tile has, a panel of weights that are taken apart.
func multiplyQ4AVX512(dst []float32, stride int, m Matrix, a *Activations, rows []int32, from, to int) {
	switch groups := q4Groups(a.Columns); {
	case groups == 0:
		multiplyQ4Generic(dst, stride, m, a, rows, from, to) // zeros
	case len(rows) <= q4TileRows512 && len(rows)*groups <= 512:
		multiplyQ4Few512(dst, stride, m, a, rows, from, to)
	default:
		multiplyQ4Many512(dst, stride, m, a, rows, from, to)
	}
}

func fourBitAVX512(f Format) integerKernels {
	if f == MXFP4 {
		return mxfp4AVX512
	}
	return q4AVX512
}

//go:noinline
func multiplyQ4Few512(dst []float32, stride int, m Matrix, a *Activations, rows []int32, from, to int) {
	var terms [512]uint64
	multiplyInteger(fourBitAVX512(m.Format), q4TileRows512, terms[:], nil, dst, stride, m, a, rows, from, to)
}

//go:noinline
func multiplyQ4Many512(dst []float32, stride int, m Matrix, a *Activations, rows []int32, from, to int) {
	var terms [3072]uint64
	var panel [q4PanelGroups512 * q4PanelGroupBytes512]byte
	tile := q4TileRows512
	if len(rows) > tile {
		tile = q4PanelTileRows512
	}
	multiplyInteger(fourBitAVX512(m.Format), tile, terms[:], panel[:], dst, stride, m, a, rows, from, to)
}

// blockQ4AVX512 multiplies one block of weights with all rows. For several tiles of rows, weights are taken apart panel by panel; a
// shorter group at the end is not.
func (c *integerChunk) blockQ4AVX512(dst []float32, stride int, block []byte, mask uint32) {
	t := q4Tile{kernels: c.kernels, store: mask, lastQuads: q4GroupQuads}
	whole := min(c.groups, c.a.Columns/Q4GroupColumns-c.group)
	if c.kernels == mxfp4AVX512 {
		whole &^= 1
	}
	if len(c.rows) <= q4TileRows512 {
		whole = 0
	}
	for g := 0; g < c.groups; g += t.groups {
		if t.group = c.group + g; t.group > 0 {
			t.load = mask // sums of the groups before
		}
		t.weights = &block[c.packedBytes(t.group)]
		if t.panel = nil; g < whole {
			t.groups = min(q4PanelGroups512, whole-g)
			q4UnpackCall(c.kernels, c.panel, t.weights, t.groups)
			t.panel = &c.panel[0]
			t.next = c.packedBytes(t.groups)
		} else {
			t.groups = min(q4CallGroups, c.groups-g)
			t.lastQuads = c.lastQuads(t.group + t.groups)
		}
		for done := 0; done < len(c.rows); done += t.rows {
			t.rows = tileRows(len(c.rows)-done, c.tile)
			q4Call512(&t, &dst[done*stride], stride, &c.codes[done], &c.terms[done*c.groups+g*t.rows])
		}
	}
}

// packedBytes is the size of some groups of 32 columns, for mxfp4 an even number of them.
func (c *integerChunk) packedBytes(groups int) int {
	if c.kernels == mxfp4AVX512 {
		return groups / 2 * mxfp4GroupBytes
	}
	return groups * q4GroupBytes
}

//go:noinline
func q4UnpackCall(k integerKernels, panel []byte, weights *byte, groups int) {
	if k == mxfp4AVX512 {
		mxfp4UnpackAVX512(&panel[0], weights, groups/2)
		return
	}
	q4UnpackAVX512(&panel[0], weights, groups)
}

// q4Tile is what the calls of a panel share, and the number of rows of the next one.
type q4Tile struct {
	kernels                  integerKernels
	load, store              uint32
	weights                  *byte
	panel                    *byte // weights, taken apart; or nil
	next                     int   // where the next panel's weights begin behind these; blocks lie one after the other
	group, groups, lastQuads int
	rows                     int
}

//go:noinline
func q4Call512(t *q4Tile, acc *float32, stride int, codes **int8, terms *uint64) {
	if t.panel != nil {
		q4PanelCall512(t, acc, stride, codes, terms)
		return
	}
	if t.kernels == mxfp4AVX512 {
		mxfp4Call512(t, acc, stride, codes, terms)
		return
	}
	column := t.group * Q4GroupColumns
	switch t.rows {
	case 1:
		q4Rows1AVX512(acc, 4*stride, t.load, t.store, t.weights, codes, column, terms, t.groups, t.lastQuads)
	case 2:
		q4Rows2AVX512(acc, 4*stride, t.load, t.store, t.weights, codes, column, terms, t.groups, t.lastQuads)
	case 3:
		q4Rows3AVX512(acc, 4*stride, t.load, t.store, t.weights, codes, column, terms, t.groups, t.lastQuads)
	case 4:
		q4Rows4AVX512(acc, 4*stride, t.load, t.store, t.weights, codes, column, terms, t.groups, t.lastQuads)
	case 5:
		q4Rows5AVX512(acc, 4*stride, t.load, t.store, t.weights, codes, column, terms, t.groups, t.lastQuads)
	case 6:
		q4Rows6AVX512(acc, 4*stride, t.load, t.store, t.weights, codes, column, terms, t.groups, t.lastQuads)
	case 7:
		q4Rows7AVX512(acc, 4*stride, t.load, t.store, t.weights, codes, column, terms, t.groups, t.lastQuads)
	case 8:
		q4Rows8AVX512(acc, 4*stride, t.load, t.store, t.weights, codes, column, terms, t.groups, t.lastQuads)
	}
}

//go:noinline
func q4PanelCall512(t *q4Tile, acc *float32, stride int, codes **int8, terms *uint64) {
	column := t.group * Q4GroupColumns
	switch t.rows {
	case 4:
		q4Panel4AVX512(acc, 4*stride, t.load, t.store, t.panel, t.weights, t.next, codes, column, terms, t.groups)
	case 5:
		q4Panel5AVX512(acc, 4*stride, t.load, t.store, t.panel, t.weights, t.next, codes, column, terms, t.groups)
	case 6:
		q4Panel6AVX512(acc, 4*stride, t.load, t.store, t.panel, t.weights, t.next, codes, column, terms, t.groups)
	case 7:
		q4Panel7AVX512(acc, 4*stride, t.load, t.store, t.panel, t.weights, t.next, codes, column, terms, t.groups)
	}
}
