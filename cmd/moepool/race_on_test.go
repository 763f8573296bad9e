//go:build linux && race

package main

// underRace makes the same-bits matrices smaller: the plain Go kernels are a hundred times slower under the race detector, and have no
// goroutines of their own.
const underRace = true
