//go:build race

package engine_test

import "github.com/moepool/moepool/kernels"

// matrixFormats are the formats of the same-bits matrices. Under the race detector the plain Go reference of the float formats is a
// hundred times slower, and it has no goroutines of its own: q8 runs the same engine.
var matrixFormats = []kernels.Format{kernels.Q8}
