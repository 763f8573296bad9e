//go:build !purego

package kernels

import "math"

// integerKernels says which instructions multiply an integer format.
type integerKernels uint8

const (
	q4AVX512    integerKernels = iota
	mxfp4AVX512                // its groups of 32 columns are halves of the packed ones
	q8AVXVNNI
	q4AVXVNNI
)

// groupColumns is the number of columns that share a weight scale.
func (k integerKernels) groupColumns() int {
	if k == q8AVXVNNI {
		return GroupColumns
	}
	return Q4GroupColumns
}

// offset is what the bytes that are multiplied are larger than codes, or twice their values.
func (k integerKernels) offset() int32 {
	switch k {
	case q8AVXVNNI:
		return codeOffset
	case mxfp4AVX512:
		return mxfp4Offset
	}
	return q4Offset
}

// chunkRows is how many rows go through all outputs before the next rows do.
const chunkRows = 96

// multiplyInteger takes as many rows and groups at a time as there is room for their terms; sums are kept in dst. tile is the number
// of rows of the largest tile.
func multiplyInteger(k integerKernels, tile int, terms []uint64, panel []byte, dst []float32, stride int, m Matrix, a *Activations, rows []int32, from, to int) {
	groups := (a.Columns + k.groupColumns() - 1) / k.groupColumns()
	most := len(terms) / min(len(rows), tile) &^ 1 // even: from a group of activations on
	for g := 0; g < groups; g += most {
		n := min(most, groups-g)
		step := min(len(terms)/n, chunkRows)
		if step > tile {
			step -= step % tile
		}
		for first := 0; first < len(rows); first += step {
			c := integerChunk{kernels: k, tile: tile, a: a, rows: rows[first:min(first+step, len(rows))], terms: terms, panel: panel, group: g, groups: n}
			c.prepare()
			for output := from; output < to; output += BlockOutputs {
				target, block := dst[first*stride+output:], m.block(output)
				if k == q4AVX512 || k == mxfp4AVX512 {
					c.blockQ4AVX512(target, stride, block, outputMask(to-output))
				} else {
					c.blockAVXVNNI(target, stride, block, min(to-output, BlockOutputs))
				}
			}
		}
	}
}

// integerChunk is some rows and groups of a product.
type integerChunk struct {
	kernels       integerKernels
	tile          int
	a             *Activations
	rows          []int32
	group, groups int // of weights
	codes         [chunkRows]*int8
	terms         []uint64 // for each tile [groups][rows of the tile]: the bits of a scale, above them an int32, -offset·Σx
	panel         []byte   // q4AVX512, mxfp4AVX512: room for weights that are taken apart
}

// prepare fills codes and terms.
func (c *integerChunk) prepare() {
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
func (c *integerChunk) rowTerms(terms []uint64, step, row int) {
	columns := c.kernels.groupColumns()
	aside := GroupColumns / columns // groups of weights in one of activations
	codes, scales := c.a.codes(row)[c.group*columns:], c.a.scales(row)[c.group/aside:]
	whole := min(len(codes)/GroupColumns, c.groups/aside)
	if whole > 0 {
		integerTermsCall(c.kernels, terms, step, codes, scales, whole)
	}
	for g := aside * whole; g < c.groups; g++ { // in an activations' group that is shorter
		sum := int32(0)
		for _, x := range codes[g*columns : min((g+1)*columns, len(codes))] {
			sum += int32(x)
		}
		terms[g*step] = uint64(uint32(-c.kernels.offset()*sum))<<32 | uint64(math.Float32bits(scales[g/aside]))
	}
}

//go:noinline
func integerTermsCall(k integerKernels, terms []uint64, step int, codes []int8, scales []float32, groups int) {
	switch k {
	case q4AVX512:
		q4TermsAVX512(&terms[0], 8*step, &codes[0], &scales[0], groups)
	case mxfp4AVX512:
		mxfp4TermsAVX512(&terms[0], 8*step, &codes[0], &scales[0], groups)
	case q8AVXVNNI:
		q8TermsAVXVNNI(&terms[0], 8*step, &codes[0], &scales[0], groups)
	case q4AVXVNNI:
		q4TermsAVXVNNI(&terms[0], 8*step, &codes[0], &scales[0], groups)
	}
}

// lastQuads is the number of quads of the last of a block's groups up to end.
func (c *integerChunk) lastQuads(end int) int {
	columns := c.kernels.groupColumns()
	return (min(end*columns, c.a.Columns) - (end-1)*columns + quadColumns - 1) / quadColumns
}
