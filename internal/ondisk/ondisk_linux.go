package ondisk

import (
	"os"
	"path/filepath"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/moepool/moepool/internal/lacking"
)

// Folder gives an empty folder until t ends: where temporary folders usually are or, since many systems keep these in memory, below the
// folder in which the test runs. In a numavm, whose disk has a place of its own, it is there. Where nothing lies on a disk the test is
// skipped, but not in CI.
func Folder(t testing.TB) string {
	t.Helper()
	usual := t.TempDir()
	if !inMemory(t, usual) {
		return usual
	}
	parent := "."
	if os.Getenv("NUMAVM") == "1" {
		parent = "/ext4"
	}
	dir, err := os.MkdirTemp(parent, "tmp-test-")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := os.RemoveAll(dir); err != nil {
			t.Error(err)
		}
	})
	if dir, err = filepath.Abs(dir); err != nil {
		t.Fatal(err)
	}
	if inMemory(t, dir) {
		lacking.Skip(t, "neither %s nor %s lies on a disk", usual, dir)
	}
	return dir
}

// inMemory says whether a folder's files are in memory only.
func inMemory(t testing.TB, dir string) bool {
	t.Helper()
	var st unix.Statfs_t
	if err := unix.Statfs(dir, &st); err != nil {
		t.Fatalf("%s: %v", dir, err)
	}
	kind := int64(st.Type)
	return kind == unix.TMPFS_MAGIC || kind == unix.RAMFS_MAGIC
}
