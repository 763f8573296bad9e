package kernels

// generic is the reference: plain Go that every other implementation must equal, bit for bit.
var generic = Set{
	name: "generic",
	operations: operations{
		quantize:     quantizeGeneric,
		finite:       finiteGeneric,
		multiplyF32:  multiplyF32Generic,
		multiplyBF16: multiplyBF16Generic,
		multiplyQ8:   multiplyQ8Generic,
		siluMultiply: siluMultiplyGeneric,
		rmsNorm:      rmsNormGeneric,
		rotate:       rotateGeneric,
		scores:       scoresGeneric,
		weightedSum:  weightedSumGeneric,
		expMinus:     expMinusGeneric,
		merge:        mergeGeneric,
		scale:        scaleGeneric,
		divide:       divideGeneric,
		add:          addGeneric,
		addScaled:    addScaledGeneric,
		toBF16:       toBF16Generic,
		fromBF16:     fromBF16Generic,
		accumulate:   accumulateGeneric,
		fromFixed:    fromFixedGeneric,
	},
}
