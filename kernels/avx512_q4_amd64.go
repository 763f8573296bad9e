//go:build !purego

package kernels

import "math"

const (
	q4TileRows512      = 8  // rows that are multiplied with weights as they are packed
	q4PanelTileRows512 = 7  // at most, if there are more; 4 at least
	q4PanelGroups512   = 16 // 18 KB, which stay in the first cache while several tiles of rows use them
	// q4PanelGroupBytes512 is the size of a group that was taken apart: 32 float32 scales, and a byte for each code.
	q4PanelGroupBytes512 = 4*BlockOutputs + Q4GroupColumns*BlockOutputs
)

// multiplyQ4AVX512 keeps the terms of some rows (scales, and where their integer sums start) on the stack, and for more rows than
// a tile has, a panel of weights that are taken apart.
func multiplyQ4AVX512(dst []float32, stride int, m Matrix, a *Activations, rows []int32, from, to int) {
	switch groups := q4Groups(a.Columns); {
	case groups == 0:
		multiplyQ4Generic(dst, stride, m, a, rows, from, to)
	case len(rows) <= q4TileRows512 && len(rows)*groups <= 512:
		multiplyQ4Few512(dst, stride, m, a, rows, from, to)
	default:
		multiplyQ4Many512(dst, stride, m, a, rows, from, to)
	}
}

//go:noinline
func multiplyQ4Few512(dst []float32, stride int, m Matrix, a *Activations, rows []int32, from, to int) {
	var terms [512]uint64
	multiplyQ4In512(terms[:], nil, dst, stride, m, a, rows, from, to)
}

//go:noinline
func multiplyQ4Many512(dst []float32, stride int, m Matrix, a *Activations, rows []int32, from, to int) {
	var terms [3072]uint64
	var panel [q4PanelGroups512 * q4PanelGroupBytes512]byte
	multiplyQ4In512(terms[:], panel[:], dst, stride, m, a, rows, from, to)
}

// multiplyQ4In512 takes as many rows and groups at a time as there is room for their terms; sums are kept in dst.
func multiplyQ4In512(terms []uint64, panel []byte, dst []float32, stride int, m Matrix, a *Activations, rows []int32, from, to int) {
	groups, tile := q4Groups(a.Columns), q4TileRows512
	if len(rows) > tile {
		tile = q4PanelTileRows512
	}
	most := len(terms) / min(len(rows), tile) &^ 1 // from a group of activations on
	for g := 0; g < groups; g += most {
		n := min(most, groups-g)
		step := min(len(terms)/n, chunkRows512)
		if step > tile {
			step -= step % tile
		}
		for first := 0; first < len(rows); first += step {
			c := q4Chunk{a: a, tile: tile, rows: rows[first:min(first+step, len(rows))], terms: terms, panel: panel, group: g, groups: n}
			c.prepare()
			for output := from; output < to; output += BlockOutputs {
				c.block(dst[first*stride+output:], stride, m.block(output), outputMask(to-output))
			}
		}
	}
}

// q4Chunk is some rows and groups of a product.
type q4Chunk struct {
	a             *Activations
	rows          []int32
	tile          int // rows of the largest tile
	group, groups int
	codes         [chunkRows512]*int8
	terms         []uint64 // for each tile [groups][rows of the tile]: the bits of a scale, above them an int32, -8·Σx
	panel         []byte
}

// prepare fills codes and terms.
func (c *q4Chunk) prepare() {
	for i, row := range c.rows {
		c.codes[i] = &c.a.codes(int(row))[0]
	}
	for done := 0; done < len(c.rows); {
		n := tileRows(len(c.rows)-done, c.tile)
		for i := range n {
			c.rowTerms(c.terms[done*c.groups+i:], n, int(c.rows[done+i]))
		}
		done += n
	}
}

// rowTerms stores the terms of one row, step apart.
func (c *q4Chunk) rowTerms(terms []uint64, step, row int) {
	codes, scales := c.a.codes(row)[c.group*Q4GroupColumns:], c.a.scales(row)[c.group*Q4GroupColumns/GroupColumns:]
	whole := min(len(codes)/GroupColumns, c.groups/2)
	if whole > 0 {
		q4TermsCall(terms, step, codes, scales, whole)
	}
	for g := 2 * whole; g < c.groups; g++ { // in an activations' group that is shorter
		sum := int32(0)
		for _, x := range codes[g*Q4GroupColumns : min((g+1)*Q4GroupColumns, len(codes))] {
			sum += int32(x)
		}
		terms[g*step] = uint64(uint32(-q4Offset*sum))<<32 | uint64(math.Float32bits(scales[g/2]))
	}
}

//go:noinline
func q4TermsCall(terms []uint64, step int, codes []int8, scales []float32, groups int) {
	q4TermsAVX512(&terms[0], 8*step, &codes[0], &scales[0], groups)
}

// block multiplies one block of weights with all rows. For several tiles of rows, weights are taken apart panel by panel; a
// shorter group at the end is not.
func (c *q4Chunk) block(dst []float32, stride int, block []byte, mask uint32) {
	t := q4Tile{store: mask, lastQuads: q4GroupQuads}
	whole := min(c.groups, c.a.Columns/Q4GroupColumns-c.group)
	if len(c.rows) <= q4TileRows512 {
		whole = 0
	}
	for g := 0; g < c.groups; g += t.groups {
		if t.group = c.group + g; t.group > 0 {
			t.load = mask // sums of the groups before
		}
		t.weights = &block[t.group*q4GroupBytes]
		if t.panel = nil; g < whole {
			t.groups = min(q4PanelGroups512, whole-g)
			q4UnpackCall(c.panel, t.weights, t.groups)
			t.panel = &c.panel[0]
			// Blocks lie one after the other. A prefetch beyond the matrix does nothing, but is no address that Go may see.
			t.next = t.groups * q4GroupBytes
		} else {
			t.groups = min(q4CallGroups, c.groups-g)
			if t.group+t.groups == q4Groups(c.a.Columns) {
				t.lastQuads = (c.a.Columns - (t.group+t.groups-1)*Q4GroupColumns + quadColumns - 1) / quadColumns
			}
		}
		for done := 0; done < len(c.rows); done += t.rows {
			t.rows = tileRows(len(c.rows)-done, c.tile)
			q4Call512(&t, &dst[done*stride], stride, &c.codes[done], &c.terms[done*c.groups+g*t.rows])
		}
	}
}

//go:noinline
func q4UnpackCall(panel []byte, weights *byte, groups int) {
	q4UnpackAVX512(&panel[0], weights, groups)
}

// q4Tile is what the calls of a panel share, and the number of rows of the next one.
type q4Tile struct {
	load, store              uint32
	weights                  *byte
	panel                    *byte // weights, taken apart; or nil
	next                     int   // where the next panel's weights begin behind these
	group, groups, lastQuads int
	rows                     int
}

//go:noinline
func q4Call512(t *q4Tile, acc *float32, stride int, codes **int8, terms *uint64) {
	if t.panel != nil {
		q4PanelCall512(t, acc, stride, codes, terms)
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
