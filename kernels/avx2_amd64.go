//go:build !purego

package kernels

// avx2 computes with AVX2 and FMA instructions, eight float32 or 32 bytes at a time.
//
// Assembly can't be preempted, and a loop around calls of it is not either unless something in the loop has a stack check:
// so every assembly function is called through a small Go function that is never inlined, with at most about 100 µs of
// work (STYLE.md).
var avx2 = Set{
	name:     "avx2",
	requires: []string{"avx2", "fma"},
	operations: operations{
		quantize:             quantizeVectors,
		quantizeWeights:      quantizeWeightsVectors,
		quantizeWeightsQ4:    quantizeWeightsQ4Vectors,
		quantizeWeightsMXFP4: quantizeWeightsMXFP4Vectors,
		finite:               finiteVectors,
		multiplyFloat:        multiplyFloatAVX2,
		multiplyQ8:           multiplyIntegerAVX2,
		multiplyQ4:           multiplyIntegerAVX2,
		multiplyFP8:          multiplyFloatAVX2,
		multiplyMXFP4:        multiplyIntegerAVX2,
		siluMultiply:         siluMultiplyVectors,
		rmsNorm:              rmsNormVectors,
		rotate:               rotateVectors,
		attendBlock:          attendBlockAVX2,
		mergeFactors:         mergeFactorsVectors,
		expMinus:             expMinusVectors,
		merge:                mergeVectors,
		divide:               divideVectors,
		add:                  addVectors,
		addScaled:            addScaledVectors,
		accumulate:           accumulateVectors,
		fromFixed:            fromFixedGeneric, // AVX2 has no conversion from int64
	},
}
