package kernels

// generic is the reference: plain Go that every other implementation must equal, bit for bit.
var generic = Set{
	name: "generic",
	operations: operations{
		quantize:             quantizeGeneric,
		quantizeWeights:      quantizeWeightsGeneric,
		quantizeWeightsQ4:    quantizeWeightsQ4Generic,
		quantizeWeightsMXFP4: quantizeWeightsMXFP4Generic,
		finite:               finiteGeneric,
		multiplyFloat:        multiplyFloatGeneric,
		multiplyQ8:           multiplyQ8Generic,
		multiplyQ4:           multiplyQ4Generic,
		multiplyFP8:          multiplyFP8Generic,
		multiplyMXFP4:        multiplyMXFP4Generic,
		siluMultiply:         siluMultiplyGeneric,
		rmsNorm:              rmsNormGeneric,
		rotate:               rotateGeneric,
		attendBlock:          attendBlockGeneric,
		mergeFactors:         mergeFactorsGeneric,
		expMinus:             expMinusGeneric,
		merge:                mergeGeneric,
		divide:               divideGeneric,
		add:                  addGeneric,
		addScaled:            addScaledGeneric,
		accumulate:           accumulateGeneric,
		fromFixed:            fromFixedGeneric,
	},
}
