// Command avx512 writes the AVX-512 assembly of package kernels. Run it with generate.sh, in the folder above.
//
// Each function here is the vector form of a function of the plain Go reference ("generic") and does the same operations on
// each element in the same order. The Go side (avx512_*.go) checks nothing and cuts long work into calls of at most about
// 100 µs. Elements left over after whole vectors are done with masks, which also keep loads inside their slices.
package main

import . "github.com/mmcloughlin/avo/build"

func main() {
	ConstraintExpr("amd64")
	ConstraintExpr("!purego")

	groupTerms()
	for rows := 1; rows <= q8TileRows; rows++ {
		q8(rows)
	}
	fourBitTerms("q4", 8)
	fourBitTerms("mxfp4", 12)
	q4Unpack()
	mxfp4Unpack()
	for rows := 1; rows <= q8TileRows; rows++ {
		q4(rows)
		mxfp4(rows)
	}
	for rows := q4PanelFewest; rows <= q4PanelMost; rows++ {
		q4Panel(rows)
	}
	gatherGroups()
	storeSums()
	for rows := q8GatheredLeast; rows <= q8GatheredMost; rows++ {
		q8Gathered(rows)
	}
	for rows := 1; rows <= floatTileRows; rows++ {
		float(f32, rows)
		float(bf16, rows)
		float(fp8, rows)
	}

	siluMultiply()
	expMinus()
	for _, f := range kvFormats {
		for rows := 1; rows <= 8; rows *= 2 {
			kvProduct(f, rows)
		}
	}
	kvSoftmax()
	accumulate()
	fromFixed()

	Generate()
}
