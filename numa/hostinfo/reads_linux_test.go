package hostinfo_test

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/moepool/moepool/internal/lowmemory"
	"github.com/moepool/moepool/internal/ondisk"
	"github.com/moepool/moepool/numa/hostinfo"
)

// What a process reads past the page cache is counted, and what lies in it is not.
func TestReadsOfThisProcess(t *testing.T) {
	const size = 8 << 20
	dir := ondisk.Folder(t)
	path := filepath.Join(dir, "file")
	if err := os.WriteFile(path, make([]byte, size), 0o600); err != nil {
		t.Fatal(err)
	}
	f, err := os.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	if err := lowmemory.Forget(dir); err != nil {
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
