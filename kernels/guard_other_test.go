//go:build !unix

package kernels

import "testing"

// guarded gives n zeroed elements; inaccessible pages around them need a Unix.
func guarded[T any](_ testing.TB, n int, _ bool) []T { return make([]T, n) }
