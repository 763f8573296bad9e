//go:build unix

package kernels

import (
	"sync"
	"testing"
	"unsafe"

	"golang.org/x/sys/unix"
)

// Regions with inaccessible pages on both sides, by their number of pages; a test takes one and gives it back at its end.
var (
	regionLock sync.Mutex
	regions    = map[int][][]byte{}
)

// guarded gives n zeroed elements that end right before an inaccessible page (or, with atStart, begin right behind one), so
// that an access outside faults.
func guarded[T any](t testing.TB, n int, atStart bool) []T {
	t.Helper()
	var element T
	size := n * int(unsafe.Sizeof(element))
	if size == 0 {
		return []T{}
	}
	page := unix.Getpagesize()
	pages := (size + page - 1) / page
	region := takeRegion(t, pages, page)
	t.Cleanup(func() {
		regionLock.Lock()
		defer regionLock.Unlock()
		regions[pages] = append(regions[pages], region)
	})
	clear(region)
	from := 0
	if !atStart {
		from = len(region) - size
	}
	return unsafe.Slice((*T)(unsafe.Pointer(&region[from])), n)
}

func takeRegion(t testing.TB, pages, page int) []byte {
	t.Helper()
	regionLock.Lock()
	defer regionLock.Unlock()
	if free := regions[pages]; len(free) > 0 {
		regions[pages] = free[:len(free)-1]
		return free[len(free)-1]
	}
	all, err := unix.Mmap(-1, 0, (pages+2)*page, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_PRIVATE|unix.MAP_ANON)
	if err != nil {
		t.Fatal(err)
	}
	for _, fence := range [][]byte{all[:page], all[(pages+1)*page:]} {
		if err := unix.Mprotect(fence, unix.PROT_NONE); err != nil {
			t.Fatal(err)
		}
	}
	return all[page : (pages+1)*page]
}
