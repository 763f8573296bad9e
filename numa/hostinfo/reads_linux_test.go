package hostinfo_test

import (
	"os"
	"path/filepath"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/moepool/moepool/numa/hostinfo"
)

// What a process reads past the page cache is counted, and what lies in it is not.
func TestReadsOfThisProcess(t *testing.T) {
	dir := t.TempDir()
	if direct, err := unix.Open(dir, unix.O_TMPFILE|unix.O_RDWR|unix.O_DIRECT, 0o600); err != nil {
		var err2 error // the usual place may be a tmpfs
		if dir, err2 = os.MkdirTemp(".", "tmp-test-"); err2 != nil {
			t.Fatal(err, err2)
		}
		t.Cleanup(func() { os.RemoveAll(dir) })
	} else if err := unix.Close(direct); err != nil {
		t.Fatal(err)
	}
	const size = 8 << 20
	path := filepath.Join(dir, "file")
	if err := os.WriteFile(path, make([]byte, size), 0o600); err != nil {
		t.Fatal(err)
	}
	f, err := os.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	if err := f.Sync(); err != nil {
		t.Fatal(err)
	}
	if err := unix.Fadvise(int(f.Fd()), 0, 0, unix.FADV_DONTNEED); err != nil {
		t.Fatal(err)
	}
	read := func() hostinfo.Reads {
		t.Helper()
		before, err := hostinfo.ReadsOfThisProcess()
		if err != nil {
			t.Fatal(err)
		}
		if _, err := f.ReadAt(make([]byte, size), 0); err != nil {
			t.Fatal(err)
		}
		after, err := hostinfo.ReadsOfThisProcess()
		if err != nil {
			t.Fatal(err)
		}
		return after.Since(before)
	}
	if cold := read(); cold.Bytes < size || cold.Bytes > 2*size {
		t.Errorf("reading %d bytes from the disk counted %d", size, cold.Bytes)
	}
	if warm := read(); warm.Bytes >= size {
		t.Errorf("reading from the page cache counted %d bytes", warm.Bytes)
	}
}

func BenchmarkReadsOfThisProcess(b *testing.B) {
	for b.Loop() {
		if _, err := hostinfo.ReadsOfThisProcess(); err != nil {
			b.Fatal(err)
		}
	}
}
