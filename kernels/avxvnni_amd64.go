//go:build !purego

package kernels

const (
	tileRowsAVXVNNI   = 6
	panelBytesAVXVNNI = 24 << 10 // of packed weights, which stay in the first cache while several tiles of rows use them
)

// avxvnni is avx2 with the integer products of CPUs that have VPDPBUSD in its VEX encoding, but no AVX-512.
var avxvnni = func() Set {
	s := avx2
	s.name = "avxvnni"
	s.requires = append([]string{"avx_vnni"}, avx2.requires...)
	s.operations.multiplyQ8 = multiplyIntegerAVXVNNI
	s.operations.multiplyQ4 = multiplyIntegerAVXVNNI
	return s
}()

// multiplyIntegerAVXVNNI (q8 and q4) keeps the terms of some rows (scales, and where their integer sums start) on the stack.
func multiplyIntegerAVXVNNI(dst []float32, stride int, m Matrix, a *Activations, rows []int32, from, to int) {
	k := q8AVXVNNI
	if m.Format == Q4 {
		k = q4AVXVNNI
	}
	if a.Columns == 0 {
		multiplyIntegerAVX2(dst, stride, m, a, rows, from, to) // zeros
		return
	}
	if len(rows)*a.Columns <= 512*k.groupColumns() {
		multiplyFewAVXVNNI(k, dst, stride, m, a, rows, from, to)
	} else {
		multiplyManyAVXVNNI(k, dst, stride, m, a, rows, from, to)
	}
}

//go:noinline
func multiplyFewAVXVNNI(k integerKernels, dst []float32, stride int, m Matrix, a *Activations, rows []int32, from, to int) {
	var terms [512]uint64
	multiplyInteger(k, tileRowsAVXVNNI, terms[:], nil, dst, stride, m, a, rows, from, to)
}

//go:noinline
func multiplyManyAVXVNNI(k integerKernels, dst []float32, stride int, m Matrix, a *Activations, rows []int32, from, to int) {
	var terms [3072]uint64
	multiplyInteger(k, tileRowsAVXVNNI, terms[:], nil, dst, stride, m, a, rows, from, to)
}

// blockAVXVNNI multiplies one block of weights with all rows, panel by panel. Sums of a block of fewer outputs are kept in a buffer.
func (c *integerChunk) blockAVXVNNI(dst []float32, stride int, block []byte, outputs int) {
	groupBytes := fullGroupBytes
	if c.kernels == q4AVXVNNI {
		groupBytes = q4GroupBytes
	}
	panel := panelBytesAVXVNNI / groupBytes
	if len(c.rows) <= c.tile {
		panel = callBytes / groupBytes
	}
	var buffer [tileRowsAVXVNNI * BlockOutputs]float32
	for g := 0; g < c.groups; g += panel {
		t := integerTile{group: c.group + g, groups: min(panel, c.groups-g)}
		t.lastQuads = c.lastQuads(t.group + t.groups)
		weights := &block[t.group*groupBytes]
		for done := 0; done < len(c.rows); done += t.rows {
			t.rows = tileRows(len(c.rows)-done, c.tile)
			sums := tile{dst[done*stride:], stride, c.rows[done : done+t.rows]}
			if outputs < BlockOutputs {
				sums.sums, sums.stride = buffer[:], BlockOutputs
			}
			switch {
			case t.group == 0:
				sums.clear()
			case outputs < BlockOutputs:
				for i := range t.rows {
					copy(buffer[i*BlockOutputs:][:outputs], dst[(done+i)*stride:])
				}
			}
			codes, terms := &c.codes[done], &c.terms[done*c.groups+g*t.rows]
			if c.kernels == q4AVXVNNI {
				q4CallAVXVNNI(&t, &sums.sums[0], sums.stride, weights, codes, terms)
			} else {
				q8CallAVXVNNI(&t, &sums.sums[0], sums.stride, weights, codes, terms)
			}
			if outputs < BlockOutputs {
				sums.copyTo(dst[done*stride:], stride, outputs)
			}
		}
	}
}

// integerTile is what the calls of a panel share, and the number of rows of the next one.
type integerTile struct {
	group, groups, lastQuads int
	rows                     int
}

//go:noinline
func q8CallAVXVNNI(t *integerTile, acc *float32, stride int, weights *byte, codes **int8, terms *uint64) {
	column := t.group * GroupColumns
	switch t.rows {
	case 1:
		q8Rows1AVXVNNI(acc, 4*stride, weights, codes, column, terms, t.groups, t.lastQuads)
	case 2:
		q8Rows2AVXVNNI(acc, 4*stride, weights, codes, column, terms, t.groups, t.lastQuads)
	case 3:
		q8Rows3AVXVNNI(acc, 4*stride, weights, codes, column, terms, t.groups, t.lastQuads)
	case 4:
		q8Rows4AVXVNNI(acc, 4*stride, weights, codes, column, terms, t.groups, t.lastQuads)
	case 5:
		q8Rows5AVXVNNI(acc, 4*stride, weights, codes, column, terms, t.groups, t.lastQuads)
	case 6:
		q8Rows6AVXVNNI(acc, 4*stride, weights, codes, column, terms, t.groups, t.lastQuads)
	}
}

//go:noinline
func q4CallAVXVNNI(t *integerTile, acc *float32, stride int, weights *byte, codes **int8, terms *uint64) {
	column := t.group * Q4GroupColumns
	switch t.rows {
	case 1:
		q4Rows1AVXVNNI(acc, 4*stride, weights, codes, column, terms, t.groups, t.lastQuads)
	case 2:
		q4Rows2AVXVNNI(acc, 4*stride, weights, codes, column, terms, t.groups, t.lastQuads)
	case 3:
		q4Rows3AVXVNNI(acc, 4*stride, weights, codes, column, terms, t.groups, t.lastQuads)
	case 4:
		q4Rows4AVXVNNI(acc, 4*stride, weights, codes, column, terms, t.groups, t.lastQuads)
	case 5:
		q4Rows5AVXVNNI(acc, 4*stride, weights, codes, column, terms, t.groups, t.lastQuads)
	case 6:
		q4Rows6AVXVNNI(acc, 4*stride, weights, codes, column, terms, t.groups, t.lastQuads)
	}
}
