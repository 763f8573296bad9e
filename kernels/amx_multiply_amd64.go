//go:build !purego

package kernels

import (
	"sync"
	"unsafe"
)

// tileFormat is how a format's weights go into tiles.
type tileFormat struct {
	columns int // of a group
	bytes   int // of a whole group, packed
	factors [tileRows16 * quadColumns]int8
	fourBit bool
}

var (
	tilesQ8 = tileFormat{columns: GroupColumns, bytes: fullGroupBytes, factors: repeat(-codeOffset)}
	tilesQ4 = tileFormat{columns: Q4GroupColumns, bytes: q4GroupBytes, factors: repeat(-q4Offset), fourBit: true}
)

func repeat(factor int8) (all [tileRows16 * quadColumns]int8) {
	for i := range all {
		all[i] = factor
	}
	return all
}

// tileScratch is one call's memory. Its fields are 64-byte aligned, since an object of this size begins a page.
type tileScratch struct {
	dots   [2][tileRows16][tileRows16]int32
	quads  [tilePanelGroups * q4GroupQuads * quadBytes]byte // unpacked weights
	starts [tilePieceRows / tileRows16][tileGroups][tileRows16]int32
	scales [tilePieceRows][tileGroups]float32
	codes  [tilePieceRows * tileCodesRow]int8
	config tileConfig
}

var tileScratches = sync.Pool{New: func() any { return new(tileScratch) }}

// multiplyTiles takes up to tilePieceRows rows and tileGroups groups at a time; sums are kept in dst.
func multiplyTiles(f *tileFormat, dst []float32, stride int, m Matrix, a *Activations, rows []int32, from, to int) {
	s := tileScratches.Get().(*tileScratch)
	groups := (a.Columns + f.columns - 1) / f.columns
	pieces := (len(rows) + tilePieceRows - 1) / tilePieceRows
	step := ((len(rows)+pieces-1)/pieces + tileRows16 - 1) &^ (tileRows16 - 1) // about equal pieces of whole tiles
	for first := 0; first < len(rows); first += step {
		for group := 0; group < groups; group += tileGroups {
			p := tilePiece{
				format: f, scratch: s, a: a, rows: rows[first:min(first+step, len(rows))],
				group: group, groups: min(tileGroups, groups-group), lastQuads: f.columns / quadColumns,
			}
			if group+p.groups == groups {
				p.lastQuads = (a.Columns - (groups-1)*f.columns + quadColumns - 1) / quadColumns
			}
			p.prepare()
			for output := from; output < to; output += BlockOutputs {
				p.block(dst[first*stride+output:], stride, m.block(output), outputMask(to-output))
			}
		}
	}
	tileScratches.Put(s)
}

// tilePiece is some rows and groups of a product.
type tilePiece struct {
	format        *tileFormat
	scratch       *tileScratch
	a             *Activations
	rows          []int32
	group, groups int
	lastQuads     int // of the last of the groups

	codes    *int8
	codesRow int
}

// whole is the number of tiles of 16 rows, rest the rows of the one after them.
func (p *tilePiece) whole() (tiles, rest int) {
	return len(p.rows) / tileRows16, len(p.rows) % tileRows16
}

// prepare finds the rows' codes and scales, and where the integer sums start.
func (p *tilePiece) prepare() {
	p.findCodes()
	s := p.scratch
	for i, row := range p.rows {
		scales := p.a.scales(int(row))
		if p.format.fourBit { // two groups of weights to one of activations
			for g := range p.groups {
				s.scales[i][g] = scales[(p.group+g)*Q4GroupColumns/GroupColumns]
			}
		} else {
			copy(s.scales[i][:], scales[p.group:p.group+p.groups])
		}
	}
	tiles, rest := p.whole()
	p.start(0, tiles, tileRows16)
	p.start(tiles, min(rest, 1), rest)
}

// findCodes lets a tile's rows be loaded from where they are, if they are equally far apart, else gathers them. Rows a multiple of 2 KiB
// apart share a few sets of the first cache, and are gathered too.
func (p *tilePiece) findCodes() {
	first, padded := int(p.rows[0]), PaddedColumns(p.a.Columns)
	column := p.group * p.format.columns
	distance, equal := 0, true
	if len(p.rows) > 1 {
		distance = int(p.rows[1]) - first
	}
	for i, row := range p.rows {
		equal = equal && int(row) == first+i*distance
	}
	if equal && distance*padded%2048 != 0 {
		p.codes, p.codesRow = &p.a.codes(first)[column], distance*padded
		return
	}
	p.codes, p.codesRow = &p.scratch.codes[0], tileCodesRow
	to := min(column+p.groups*p.format.columns, padded)
	for i, row := range p.rows {
		copy(p.scratch.codes[i*tileCodesRow:(i+1)*tileCodesRow], p.a.codes(int(row))[column:to])
	}
}

// tileCodes is the first code of a tile.
func (p *tilePiece) tileCodes(tile int) *int8 {
	return (*int8)(unsafe.Add(unsafe.Pointer(p.codes), tile*tileRows16*p.codesRow))
}

// start computes the starts of some tiles of so many rows.
func (p *tilePiece) start(tile, tiles, rows int) {
	if tiles == 0 {
		return
	}
	c, quads := &p.scratch.config, p.format.columns/quadColumns
	*c = tileConfig{}
	c.set(0, rows, 4)
	c.set(2, rows, p.format.columns)
	c.set(3, quads, quadColumns)
	c.set(6, rows, p.lastQuads*quadColumns)
	c.set(7, p.lastQuads, quadColumns)
	tileStartsCall(&tileStarts{
		config: c, factors: &p.format.factors, codes: p.tileCodes(tile), codesRow: p.codesRow, codesStep: p.format.columns,
		starts: &p.scratch.starts[tile][0][0], groups: p.groups, tiles: tiles,
	})
}

// block multiplies one block of weights with all rows: panel by panel, so that a panel is read from memory once.
func (p *tilePiece) block(dst []float32, stride int, block []byte, mask uint32) {
	tiles, rest := p.whole()
	for g := 0; g < p.groups; g += tilePanelGroups {
		q := tilePanel{tilePiece: p, dst: dst, stride: stride, first: g, groups: min(tilePanelGroups, p.groups-g), store: mask}
		q.quads = p.format.columns / quadColumns
		if g+q.groups == p.groups {
			q.quads = p.lastQuads
		}
		if p.group+g > 0 {
			q.load = mask
		}
		q.weights = block[(p.group+g)*p.format.bytes:]
		if p.format.fourBit {
			q.unpack()
		}
		q.multiply(0, tiles, tileRows16)
		q.multiply(tiles, min(rest, 1), rest)
	}
}

// tilePanel is some groups of one block of weights.
type tilePanel struct {
	*tilePiece
	dst           []float32
	stride        int
	load, store   uint32
	first, groups int    // of the piece's groups
	quads         int    // of the last of them
	weights       []byte // from the first group on
}

// unpack makes bytes of a panel of 4-bit codes.
func (q *tilePanel) unpack() {
	for g := range q.groups {
		pairs := q4GroupQuads / 2
		if g == q.groups-1 {
			pairs = (q.quads + 1) / 2
		}
		unpackQ4Call(&q.scratch.quads[g*q4GroupQuads*quadBytes], &q.weights[g*q4GroupBytes+scaleBytes], pairs)
	}
}

// multiply does some tiles of so many rows.
func (q *tilePanel) multiply(tile, tiles, rows int) {
	if tiles == 0 {
		return
	}
	f, s := q.format, q.scratch
	c, quads := &s.config, f.columns/quadColumns
	*c = tileConfig{}
	for i := range 2 {
		c.set(i, rows, 4*tileRows16)
		c.set(2+2*i, rows, f.columns)
		c.set(3+2*i, quads, quadColumns*tileRows16)
	}
	c.set(6, rows, q.quads*quadColumns)
	c.set(7, q.quads, quadColumns*tileRows16)

	weights, weightStep := &q.weights[scaleBytes], f.bytes
	if f.fourBit {
		weights, weightStep = &s.quads[0], q4GroupQuads*quadBytes
	}
	// The next panel's lines are shared out among all passes over this one: two halves of the block for each tile.
	passes := 2 * ((len(q.rows) + tileRows16 - 1) / tileRows16)
	lines := (f.bytes + passes*64 - 1) / (passes * 64)
	tileProductsCall(&tileProducts{
		config: c, dots: &s.dots, acc: &q.dst[tile*tileRows16*q.stride], accRow: 4 * q.stride, load: q.load, store: q.store,
		weights: weights, weightStep: weightStep, weightScales: &q.weights[0], scaleStep: f.bytes,
		codes:    (*int8)(unsafe.Add(unsafe.Pointer(q.tileCodes(tile)), q.first*f.columns)),
		codesRow: q.codesRow, codesStep: f.columns,
		starts: &s.starts[tile][q.first][0], scales: &s.scales[tile*tileRows16][q.first],
		groups: q.groups, rows: rows, tiles: tiles,
		ahead:      uintptr(unsafe.Pointer(&q.weights[0])) + uintptr(q.groups*(f.bytes+2*tile*lines*64)),
		aheadLines: lines,
	})
}
