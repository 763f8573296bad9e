package smalldisk

import (
	"strconv"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/moepool/moepool/internal/lacking"
)

// Mount gives an empty folder with room for so many bytes, rounded up to pages, until t ends. Where none can be mounted the test is skipped,
// but not in CI.
func Mount(t testing.TB, bytes int) string {
	t.Helper()
	dir := t.TempDir()
	if err := unix.Mount("moepool-test", dir, "tmpfs", 0, "size="+strconv.Itoa(bytes)); err != nil {
		lacking.Skip(t, "a small tmpfs can't be mounted (root can): %v", err)
	}
	t.Cleanup(func() {
		if err := unix.Unmount(dir, unix.MNT_DETACH); err != nil {
			t.Error(err)
		}
	})
	return dir
}
