package arena

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/moepool/moepool/internal/ondisk"
	"github.com/moepool/moepool/internal/smalldisk"
)

func TestCheck(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	s, err := Check(filepath.Join(dir, "not", "there"))
	if err != nil || s.Dir != dir || s.FreeBytes <= 0 || s.TotalBytes < s.FreeBytes || !s.Writable || s.FileSystem == "" {
		t.Errorf("%+v, %v", s, err)
	}
	plain := filepath.Join(dir, "file")
	if err := os.WriteFile(plain, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	for _, bad := range []string{plain, filepath.Join(plain, "below")} {
		if s, err := Check(bad); err == nil {
			t.Errorf("%s: %+v", bad, s)
		}
	}
	if s, err := Check(smalldisk.Mount(t, 5<<20)); err != nil || s.FileSystem != "tmpfs" || s.TotalBytes != 5<<20 {
		t.Errorf("%+v, %v", s, err)
	}
}

func TestDiskSpeed(t *testing.T) {
	t.Parallel()
	for _, dir := range []string{ondisk.Folder(t), smalldisk.Mount(t, 32<<20)} {
		speed, err := DiskSpeed(dir, 10<<20)
		if err != nil || speed <= 0 {
			t.Errorf("%s: %v MB/s, %v", dir, speed, err)
		}
		t.Logf("%s: %.0f MB/s", dir, speed)
		if left, err := os.ReadDir(dir); err != nil || len(left) != 0 {
			t.Errorf("left behind: %v, %v", left, err)
		}
		if _, err := DiskSpeed(dir, 1<<50); err == nil {
			t.Error("a file larger than the disk")
		}
		if _, err := DiskSpeed(filepath.Join(dir, "not there"), 1); err == nil {
			t.Error("a folder that isn't there")
		}
	}
}
