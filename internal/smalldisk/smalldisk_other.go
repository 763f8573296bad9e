//go:build !linux

package smalldisk

import (
	"testing"

	"github.com/moepool/moepool/internal/lacking"
)

// Mount skips the test: only Linux has a tmpfs of a given size.
func Mount(t testing.TB, bytes int) string {
	t.Helper()
	lacking.Skip(t, "a disk of %d bytes can be made on Linux only", bytes)
	return ""
}
