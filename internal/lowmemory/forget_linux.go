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
	size, page := uintptr(info.Size()), uintptr(os.Getpagesize())
	at, err := unix.MmapPtr(int(f.Fd()), 0, nil, size, unix.PROT_READ, unix.MAP_SHARED)
	if err != nil {
		return false, err
	}
	defer unix.MunmapPtr(at, size)
	pages := make([]byte, min((size+page-1)/page, 1<<16))
	for from := uintptr(0); from < size; from += uintptr(len(pages)) * page {
		n := min(size-from, uintptr(len(pages))*page)
		if _, _, e := unix.Syscall(unix.SYS_MINCORE, uintptr(at)+from, n, uintptr(unsafe.Pointer(&pages[0]))); e != 0 {
			return false, e
		}
		for _, p := range pages[:(n+page-1)/page] {
			if p&1 != 0 {
				return true, nil
			}
		}
	}
	return false, nil
}
