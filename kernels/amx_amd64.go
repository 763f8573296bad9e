//go:build !purego

package kernels

// amx computes integer products of many rows with AMX tiles and everything else as avx512 does. The rows of one call are those of one
// matrix, of one expert: so how to compute is decided for each expert by its own rows, never by the batch.
var amx = func() Set {
	s := avx512
	s.name = "amx"
	s.requires = append([]string{"amx_tile", "amx_int8"}, avx512.requires...)
	s.permit = amxPermission
	s.operations.multiplyQ8 = multiplyQ8AMX
	s.operations.multiplyQ4 = multiplyQ4AMX
	s.operations.gatherQ8, s.operations.multiplyQ8Gathered = nil, nil // arranged for the tiles of avx512
	return s
}()

// fewestTileRows is the number of rows from which tiles are used. A tile of 16 outputs and 64 columns costs about 10 cycles a row
// with VPDPBUSD (two a cycle, and the conversion), but with AMX about 25 and 2.5 a row: the break-even is at 4 rows. Up
// to 8 both wait for weights that come from memory, and AVX-512 neither configures tiles nor lowers the clock. This is reckoned from the
// instructions' throughputs; it has not been measured.
const fewestTileRows = 8

func multiplyQ8AMX(dst []float32, stride int, m Matrix, a *Activations, rows []int32, from, to int) {
	if len(rows) < fewestTileRows || a.Columns == 0 {
		avx512.operations.multiplyQ8(dst, stride, m, a, rows, from, to)
		return
	}
	multiplyTiles(&tilesQ8, dst, stride, m, a, rows, from, to)
}

func multiplyQ4AMX(dst []float32, stride int, m Matrix, a *Activations, rows []int32, from, to int) {
	if len(rows) < fewestTileRows || a.Columns == 0 {
		avx512.operations.multiplyQ4(dst, stride, m, a, rows, from, to)
		return
	}
	multiplyTiles(&tilesQ4, dst, stride, m, a, rows, from, to)
}
