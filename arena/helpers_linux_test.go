package arena

import (
	"os"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/moepool/moepool/internal/lacking"
)

// dropCache takes a file that nobody maps out of the page cache.
func dropCache(t *testing.T, path string) {
	t.Helper()
	edit(t, path, func(f *os.File) error {
		if err := f.Sync(); err != nil {
			return err
		}
		return unix.Fadvise(int(f.Fd()), 0, 0, unix.FADV_DONTNEED)
	})
}

// diskDir is a temporary folder on a file system with a disk, where pages can be dropped: below this package where the usual
// place is a tmpfs.
func diskDir(t *testing.T) string {
	t.Helper()
	dir := t.TempDir()
	if s, err := Check(dir); err == nil && s.FileSystem != "tmpfs" {
		return dir
	}
	if os.Getenv("NUMAVM") == "1" {
		here, err := os.MkdirTemp("/ext4", "arena")
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { os.RemoveAll(here) })
		return here
	}
	here, err := os.MkdirTemp(".", "tmp-test-")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(here) })
	if s, err := Check(here); err != nil || s.FileSystem == "tmpfs" {
		lacking.Skip(t, "neither %s nor %s lies on a disk (%v)", dir, here, err)
	}
	return here
}
