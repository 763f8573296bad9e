//go:build !linux

package ondisk

import "testing"

// Folder gives an empty folder until t ends, where temporary folders usually are.
func Folder(t testing.TB) string {
	t.Helper()
	return t.TempDir()
}
