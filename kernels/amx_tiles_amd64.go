//go:build !purego

package kernels

// The instructions take what these describe; the fields' offsets are the assembly's (go_asm.h).

const (
	tileRows16    = 16 // rows of codes in a tile, and outputs
	tilePieceRows = 8 * tileRows16
	tileGroups    = 32 // of weights, that the rows are prepared for at a time
	// tilePanelGroups is how many groups of a block one call takes: half of 34 KB of q8 weights stays in the first cache while the
	// rows pass by.
	tilePanelGroups = 16

	//lint:ignore U1000 the assembly uses it
	tileScaleRowBytes = 4 * tileGroups
	//lint:ignore U1000 the assembly uses it
	tileStartBytes = 4 * tileRows16 * tileGroups
	// tileCodesRow is the distance of gathered rows of codes: 64 bytes more than they need, so that the rows of a tile don't fall into
	// the same sets of the cache.
	tileCodesRow = tileGroups*GroupColumns + 64
)

// tileConfig is what LDTILECFG loads: the shapes of the tiles.
type tileConfig struct {
	palette  byte
	_        [15]byte // the row to start at, and reserved
	rowBytes [16]uint16
	rows     [16]byte
}

// set gives a tile its shape.
func (c *tileConfig) set(tile, rows, rowBytes int) {
	c.palette = 1
	c.rows[tile], c.rowBytes[tile] = byte(rows), uint16(rowBytes)
}

// tileStarts are the arguments of tileStartsAMX.
type tileStarts struct {
	config              *tileConfig
	factors             *[tileRows16 * quadColumns]int8
	codes               *int8
	codesRow, codesStep int // bytes between rows, and between groups
	starts              *int32
	groups, tiles       int
}

// tileStartsAMX computes where the integer sums of rows start: for each tile of 16 rows and group, the sum of codes times the
// factor, which makes up for the offset of the stored weights. starts is [tiles][tileGroups][16].
//
//go:noescape
func tileStartsAMX(c *tileStarts)

//go:noinline
func tileStartsCall(c *tileStarts) { tileStartsAMX(c) }

// tileProducts are the arguments of tileProductsAMX, which changes some of them.
type tileProducts struct {
	config              *tileConfig
	dots                *[2][tileRows16][tileRows16]int32 // room for dot products, 64-byte aligned
	acc                 *float32
	accRow              int    // bytes between rows
	load, store         uint32 // a bit for each output: sums that are read from acc (the others start at zero), and written
	weights             *byte
	weightStep          int // bytes between groups
	weightScales        *byte
	scaleStep           int // bytes between groups
	codes               *int8
	codesRow, codesStep int // bytes between rows, and between groups
	starts              *int32
	scales              *float32
	groups              int
	rows, tiles         int // rows of each tile, all but the last of 16
	ahead               uintptr
	aheadLines          int // at least 1: cache lines from ahead on that are prefetched with each group
	//lint:ignore U1000 the assembly counts with it
	tile int
}

// tileProductsAMX adds the products of rows with one block of weights to acc: groups in ascending order, one FMA each. Quads are
// 128 bytes apart. scales is [16·tiles][tileGroups] and starts [tiles][tileGroups][16], both from the call's first group on.
//
//go:noescape
func tileProductsAMX(c *tileProducts)

//go:noinline
func tileProductsCall(c *tileProducts) { tileProductsAMX(c) }

// unpackQ4AVX512 stores the codes of pairs of quads as bytes, quad after quad.
//
//go:noescape
func unpackQ4AVX512(dst, src *byte, pairs int)

//go:noinline
func unpackQ4Call(dst, src *byte, pairs int) { unpackQ4AVX512(dst, src, pairs) }
