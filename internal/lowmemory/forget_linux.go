package lowmemory

import (
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"
)

// forgetLimit bounds how long Forget tries. What nobody uses is gone at once, but for pages that the kernel is busy moving, to make room for
// huge ones.
const forgetLimit = 5 * time.Second

// Forget drops the files of a folder from the page cache, written pages first, so that the next read comes from the disk and is
// charged to the group of whoever reads. Files that a process maps stay, and so do those that are in memory only.
func Forget(folder string) error {
	begin := time.Now()
	return filepath.WalkDir(folder, func(path string, d fs.DirEntry, err error) error {
		if err != nil || !d.Type().IsRegular() {
			return err
		}
		f, err := os.Open(path)
		if err != nil {
			return err
		}
		defer f.Close()
		if err := f.Sync(); err != nil {
			return err
		}
		for ; ; time.Sleep(time.Millisecond) {
			if err := unix.Fadvise(int(f.Fd()), 0, 0, unix.FADV_DONTNEED); err != nil {
				return fmt.Errorf("%s: %w", path, err)
			}
			cached, err := isCached(f)
			if err != nil {
				return fmt.Errorf("%s: asking whether it is in the page cache: %w", path, err)
			}
			if !cached || time.Since(begin) > forgetLimit {
				return nil
			}
		}
	})
}

// isCached says whether a page of a file is in the page cache.
func isCached(f *os.File) (bool, error) {
	info, err := f.Stat()
	if err != nil || info.Size() == 0 {
		return false, err
	}
	data, err := unix.Mmap(int(f.Fd()), 0, int(info.Size()), unix.PROT_READ, unix.MAP_SHARED)
	if err != nil {
		return false, err
	}
	defer func() { _ = unix.Munmap(data) }()
	pages, err := Resident(data)
	return pages > 0, err
}

// Resident counts the pages of a mapping that are in memory (mincore).
func Resident(data []byte) (pages int, err error) {
	page := os.Getpagesize()
	present := make([]byte, min((len(data)+page-1)/page, 1<<16))
	for len(data) > 0 {
		n := min(len(data), len(present)*page)
		if _, _, e := unix.Syscall(unix.SYS_MINCORE, uintptr(unsafe.Pointer(&data[0])), uintptr(n), uintptr(unsafe.Pointer(&present[0]))); e != 0 {
			return 0, e
		}
		for _, p := range present[:(n+page-1)/page] {
			pages += int(p & 1)
		}
		data = data[n:]
	}
	return pages, nil
}
