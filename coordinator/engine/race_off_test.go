//go:build !race

package engine_test

import "github.com/moepool/moepool/kernels"

// matrixFormats are the formats of the same-bits matrices.
var matrixFormats = []kernels.Format{kernels.BF16, kernels.Q8, kernels.FP8, kernels.Q4, kernels.MXFP4}
