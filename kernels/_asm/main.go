// Command _asm writes the AVX2 assembly of package kernels. Run it with generate.sh, in this folder.
//
// Each function here is the vector form of a function of the plain Go reference ("generic") and does the same operations on
// each element in the same order. The Go side (avx2_*.go) checks nothing, cuts long work into calls of at most about
// 100 µs, and does the elements that are left over after whole vectors.
package main

import . "github.com/mmcloughlin/avo/build"

func main() {
	ConstraintExpr("amd64")
	ConstraintExpr("!purego")

	q8OneRow()
	q8TwoRows()
	q8FourRows()
	for _, f := range []fourBits{q4, mxfp4} {
		q4FewRows(f, 1, "one row")
		q4FewRows(f, 2, "two rows")
		q4FourRows(f)
	}
	for rows := 1; rows <= 3; rows++ {
		float(f32, rows)
		float(bf16, rows)
		float(fp8, rows)
	}

	largestBits()
	quantize()
	quantizeWeights()
	quantizeWeightsQ4()
	quantizeWeightsMXFP4()
	siluMultiply()
	expMinus()
	squareLanes()
	normalize()
	rotate()
	for _, f := range kvFormats {
		for rows := 1; rows <= 4; rows *= 2 {
			kvProduct(f, rows)
		}
	}
	kvSoftmax()
	mergeFactors()
	elementwise()
	accumulate()
	narrowSums()
	widenSums()
	addSums()

	Generate()
}
