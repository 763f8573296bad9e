//go:build !purego

package kernels

import "math"

const (
	q8TileRows512    = 8 // rows of the largest tile
	floatTileRows512 = 8
	chunkRows512     = 96 // rows that go through all outputs before the next rows do
	panelGroups512   = 16 // 34 KB of q8 weights stay in the first cache while several tiles use them
)

// outputMask has a bit for each of up to BlockOutputs outputs.
func outputMask(outputs int) uint32 {
	return math.MaxUint32 >> (BlockOutputs - min(outputs, BlockOutputs))
}

// tileRows is how many rows the next tile takes of those left, so that tiles are about equal and none is small.
func tileRows(left, most int) int {
	tiles := (left + most - 1) / most
	return (left + tiles - 1) / tiles
}

// multiplyQ8AVX512 keeps the terms of some rows (scales, and where their integer sums start) on the stack.
func multiplyQ8AVX512(dst []float32, stride int, m Matrix, a *Activations, rows []int32, from, to int) {
	switch {
	case Groups(a.Columns) == 0:
		multiplyQ8Generic(dst, stride, m, a, rows, from, to)
	case len(rows) < gatheredLeast512 && len(rows)*Groups(a.Columns) <= 256:
		multiplyQ8Few512(dst, stride, m, a, rows, from, to)
	case len(rows) >= gatheredLeast512:
		multiplyQ8Chosen512(dst, stride, m, a, rows, from, to)
	default:
		multiplyQ8Many512(dst, stride, m, a, rows, from, to)
	}
}

//go:noinline
func multiplyQ8Few512(dst []float32, stride int, m Matrix, a *Activations, rows []int32, from, to int) {
	var terms [256]uint64
	multiplyQ8In512(terms[:], dst, stride, m, a, rows, from, to)
}

//go:noinline
func multiplyQ8Many512(dst []float32, stride int, m Matrix, a *Activations, rows []int32, from, to int) {
	var terms [3072]uint64
	multiplyQ8In512(terms[:], dst, stride, m, a, rows, from, to)
}

// multiplyQ8In512 takes as many rows and groups at a time as there is room for their terms; sums are kept in dst.
func multiplyQ8In512(terms []uint64, dst []float32, stride int, m Matrix, a *Activations, rows []int32, from, to int) {
	groups := Groups(a.Columns)
	most := len(terms) / min(len(rows), q8TileRows512)
	for g := 0; g < groups; g += most {
		n := min(most, groups-g)
		step := min(len(terms)/n, chunkRows512)
		if step > q8TileRows512 {
			step -= step % q8TileRows512
		}
		for first := 0; first < len(rows); first += step {
			c := q8Chunk{a: a, rows: rows[first:min(first+step, len(rows))], terms: terms, group: g, groups: n}
			c.prepare()
			for output := from; output < to; output += BlockOutputs {
				c.block(dst[first*stride+output:], stride, m.block(output), outputMask(to-output))
			}
		}
	}
}

// q8Chunk is some rows and groups of a product.
type q8Chunk struct {
	a             *Activations
	rows          []int32
	group, groups int
	codes         [chunkRows512]*int8
	terms         []uint64 // for each tile [groups][rows of the tile]: the bits of a scale, above them an int32, -128·Σx
}

// prepare fills codes and terms.
func (c *q8Chunk) prepare() {
	for i, row := range c.rows {
		c.codes[i] = &c.a.codes(int(row))[0]
	}
	for done := 0; done < len(c.rows); {
		n := tileRows(len(c.rows)-done, q8TileRows512)
		for i := range n {
			c.rowTerms(c.terms[done*c.groups+i:], n, int(c.rows[done+i]))
		}
		done += n
	}
}

// rowTerms stores the terms of one row, step apart.
func (c *q8Chunk) rowTerms(terms []uint64, step, row int) {
	codes, scales := c.a.codes(row)[c.group*GroupColumns:], c.a.scales(row)[c.group:]
	whole := min(len(codes)/GroupColumns, c.groups)
	if whole > 0 {
		groupTermsCall(terms, step, codes, scales, whole)
	}
	if whole < c.groups { // the last group is shorter
		terms[whole*step] = termOf(codes[whole*GroupColumns:], scales[whole])
	}
}

// termOf gives a row's term in one group.
func termOf(codes []int8, scale float32) uint64 {
	sum := int32(0)
	for _, x := range codes {
		sum += int32(x)
	}
	return uint64(uint32(-codeOffset*sum))<<32 | uint64(math.Float32bits(scale))
}

//go:noinline
func groupTermsCall(terms []uint64, step int, codes []int8, scales []float32, groups int) {
	groupTermsAVX512(&terms[0], 8*step, &codes[0], &scales[0], groups)
}

// block multiplies one block of weights with all rows: panel by panel, so that a panel is read from memory once.
func (c *q8Chunk) block(dst []float32, stride int, block []byte, mask uint32) {
	panel := panelGroups512
	if len(c.rows) <= q8TileRows512 {
		panel = callGroups
	}
	for g := 0; g < c.groups; g += panel {
		t := q8Tile{load: mask, store: mask, group: c.group + g, groups: min(panel, c.groups-g), lastQuads: groupQuads}
		if t.group == 0 {
			t.load = 0
		}
		if t.group+t.groups == Groups(c.a.Columns) {
			t.lastQuads = (c.a.Columns - (t.group+t.groups-1)*GroupColumns + quadColumns - 1) / quadColumns
		}
		weights := &block[t.group*fullGroupBytes]
		for done := 0; done < len(c.rows); done += t.rows {
			t.rows = tileRows(len(c.rows)-done, q8TileRows512)
			q8Call512(&t, &dst[done*stride], stride, weights, &c.codes[done], &c.terms[done*c.groups+g*t.rows])
		}
	}
}

// q8Tile is what the calls of a panel share, and the number of rows of the next one.
type q8Tile struct {
	load, store              uint32
	group, groups, lastQuads int
	rows                     int
}

//go:noinline
func q8Call512(t *q8Tile, acc *float32, stride int, weights *byte, codes **int8, terms *uint64) {
	switch t.rows {
	case 1:
		q8Rows1AVX512(acc, 4*stride, t.load, t.store, weights, codes, t.group, terms, t.groups, t.lastQuads)
	case 2:
		q8Rows2AVX512(acc, 4*stride, t.load, t.store, weights, codes, t.group, terms, t.groups, t.lastQuads)
	case 3:
		q8Rows3AVX512(acc, 4*stride, t.load, t.store, weights, codes, t.group, terms, t.groups, t.lastQuads)
	case 4:
		q8Rows4AVX512(acc, 4*stride, t.load, t.store, weights, codes, t.group, terms, t.groups, t.lastQuads)
	case 5:
		q8Rows5AVX512(acc, 4*stride, t.load, t.store, weights, codes, t.group, terms, t.groups, t.lastQuads)
	case 6:
		q8Rows6AVX512(acc, 4*stride, t.load, t.store, weights, codes, t.group, terms, t.groups, t.lastQuads)
	case 7:
		q8Rows7AVX512(acc, 4*stride, t.load, t.store, weights, codes, t.group, terms, t.groups, t.lastQuads)
	case 8:
		q8Rows8AVX512(acc, 4*stride, t.load, t.store, weights, codes, t.group, terms, t.groups, t.lastQuads)
	}
}
