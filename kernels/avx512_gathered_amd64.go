//go:build !purego

package kernels

import (
	"sync"
	"unsafe"
)

const (
	gatheredTileRows512 = 12 // rows of the largest tile
	gatheredPanel512    = 8  // groups: 17 KB of q8 weights stay in the first cache while all tiles of a chunk use them
	gatheredLeast512    = 9  // with fewer rows there is one tile, and gathering gains nothing
	gatheredChunk512    = 64 // rows that go through all outputs before the next rows do: they stay in the second cache
)

// gatherQ8AVX512 copies the rows' codes tile by tile: [groups][rows of the tile][GroupColumns], the last group padded with zeros, and
// stores their terms. A tile's codes begin at first·groups·GroupColumns if first is its first row in the list, its terms at first·groups.
func gatherQ8AVX512(g *Gathered) {
	groups := Groups(g.activations.Columns)
	if len(g.rows) < gatheredLeast512 || groups == 0 {
		return
	}
	codes, terms := GatheredSize(len(g.rows), g.activations.Columns)
	g.Codes, g.Terms = resize(g.Codes, codes), resize(g.Terms, terms)
	g.tiles = max(2, (len(g.rows)+gatheredTileRows512-1)/gatheredTileRows512)
	for first, tiles := 0, g.tiles; tiles > 0; tiles-- {
		n := nextTile(len(g.rows)-first, tiles)
		for i, row := range g.rows[first : first+n] {
			at := first*groups + i
			gatherRow(g.Codes[at*GroupColumns:], g.Terms[at:], n, g.activations.codes(int(row)), g.activations.scales(int(row)))
		}
		first += n
	}
}

// nextTile is how many of the rows left the first of so many tiles takes.
func nextTile(left, tiles int) int { return (left + tiles - 1) / tiles }

// gatherRow stores the codes and terms of one row, step places of groups apart.
func gatherRow(dst []int8, terms []uint64, step int, codes []int8, scales []float32) {
	whole := len(codes) / GroupColumns
	if whole > 0 {
		gatherCall(dst, terms, step, codes, scales, whole)
	}
	if whole < len(scales) {
		last := dst[whole*step*GroupColumns:][:GroupColumns]
		clear(last[copy(last, codes[whole*GroupColumns:]):])
		terms[whole*step] = termOf(last, scales[whole])
	}
}

//go:noinline
func gatherCall(dst []int8, terms []uint64, step int, codes []int8, scales []float32, groups int) {
	gatherGroupsAVX512(&dst[0], GroupColumns*step, &terms[0], 8*step, &codes[0], &scales[0], groups)
}

// multiplyQ8Gathered512 multiplies block by block, and one panel with all tiles of a chunk before the next panel.
func multiplyQ8Gathered512(dst []float32, stride int, m Matrix, g *Gathered, from, to int) {
	var buffer [gatheredChunk512*BlockOutputs + 16]float32
	sums := aligned(buffer[:])
	for first, left := 0, g.tiles; left > 0; {
		c := gatheredChunk{g: g, first: first, columns: m.Columns, sums: sums, rowsLeft: len(g.rows) - first, tilesLeft: left}
		for left > 0 {
			n := nextTile(len(g.rows)-first, left)
			if c.rows+n > gatheredChunk512 {
				break
			}
			c.rows += n
			c.tiles++
			first += n
			left--
		}
		for output := from; output < to; output += BlockOutputs {
			c.block(m.block(output))
			storeCall(dst[c.first*stride+output:], stride, outputMask(to-output), sums, c.rows)
		}
	}
}

// aligned gives the part of a buffer that begins at a line of the cache. A stack that moves may spoil that, which costs time only.
func aligned(buffer []float32) []float32 {
	return buffer[-uintptr(unsafe.Pointer(&buffer[0]))%64/4:]
}

// gatheredChunk is some tiles of a product.
type gatheredChunk struct {
	g                   *Gathered
	first, rows         int // of the list
	tiles               int
	rowsLeft, tilesLeft int       // from first on
	sums                []float32 // [rows][BlockOutputs]
	columns             int
}

// block computes the sums of one block of weights.
func (c *gatheredChunk) block(block []byte) {
	groups := Groups(c.columns)
	panels := (groups + gatheredPanel512 - 1) / gatheredPanel512
	for group := 0; group < groups; panels-- {
		p := gatheredPanel{groups: (groups - group + panels - 1) / panels, lastQuads: groupQuads, weights: &block[group*fullGroupBytes]}
		if group > 0 {
			p.load = 0xffff
		}
		// The tiles share the work of prefetching the next panel, so that memory is never idle. Blocks lie one after the other.
		quads := p.groups * groupQuads * c.tiles
		p.step = (p.groups*fullGroupBytes + quads - 1) / quads
		p.next = uintptr(unsafe.Pointer(p.weights)) + uintptr(p.groups*fullGroupBytes)
		if group+p.groups == groups {
			p.lastQuads = (c.columns - (groups-1)*GroupColumns + quadColumns - 1) / quadColumns
		}
		rows, left := 0, c.tilesLeft
		for range c.tiles {
			n := nextTile(c.rowsLeft-rows, left)
			at := (c.first+rows)*groups + group*n
			gatheredCall(&p, n, &c.sums[rows*BlockOutputs], &c.g.Codes[at*GroupColumns], &c.g.Terms[at])
			p.next += uintptr(p.step * p.groups * groupQuads)
			rows += n
			left--
		}
		group += p.groups
	}
}

// gatheredPanel is what the calls of a panel share. next is prefetched only and may lie behind the matrix.
type gatheredPanel struct {
	load              uint32
	groups, lastQuads int
	weights           *byte
	next              uintptr
	step              int
}

//go:noinline
func storeCall(dst []float32, stride int, mask uint32, sums []float32, rows int) {
	storeSumsAVX512(&dst[0], 4*stride, mask, &sums[0], rows)
}

// gatheredBuffers serve products of rows that were not gathered before.
var gatheredBuffers = sync.Pool{New: func() any { return new(Gathered) }}

func multiplyQ8Chosen512(dst []float32, stride int, m Matrix, a *Activations, rows []int32, from, to int) {
	g := gatheredBuffers.Get().(*Gathered)
	g.activations, g.rows, g.tiles = a, rows, 0
	gatherQ8AVX512(g)
	multiplyQ8Gathered512(dst, stride, m, g, from, to)
	g.activations, g.rows = nil, nil
	gatheredBuffers.Put(g)
}

//go:noinline
func gatheredCall(p *gatheredPanel, rows int, sums *float32, codes *int8, terms *uint64) {
	switch rows {
	case 4:
		q8Gathered4AVX512(sums, p.load, p.weights, codes, terms, p.groups, p.lastQuads, p.next, p.step)
	case 5:
		q8Gathered5AVX512(sums, p.load, p.weights, codes, terms, p.groups, p.lastQuads, p.next, p.step)
	case 6:
		q8Gathered6AVX512(sums, p.load, p.weights, codes, terms, p.groups, p.lastQuads, p.next, p.step)
	case 7:
		q8Gathered7AVX512(sums, p.load, p.weights, codes, terms, p.groups, p.lastQuads, p.next, p.step)
	case 8:
		q8Gathered8AVX512(sums, p.load, p.weights, codes, terms, p.groups, p.lastQuads, p.next, p.step)
	case 9:
		q8Gathered9AVX512(sums, p.load, p.weights, codes, terms, p.groups, p.lastQuads, p.next, p.step)
	case 10:
		q8Gathered10AVX512(sums, p.load, p.weights, codes, terms, p.groups, p.lastQuads, p.next, p.step)
	case 11:
		q8Gathered11AVX512(sums, p.load, p.weights, codes, terms, p.groups, p.lastQuads, p.next, p.step)
	case 12:
		q8Gathered12AVX512(sums, p.load, p.weights, codes, terms, p.groups, p.lastQuads, p.next, p.step)
	}
}
