package arena

import (
	"errors"
	"fmt"
	"os"
	"sync"
	"sync/atomic"
	"syscall"
	"unsafe"
)

// errFault is the error of reading a page that has no file behind it (any more) or that the disk can't read.
var errFault = errors.New("memory fault")

// errNoMemory is the kernel's refusal to make room.
var errNoMemory = syscall.ENOMEM

var pageBytes = os.Getpagesize()

// touched keeps loads of single bytes from being optimised away.
var touched atomic.Uint32

func address(data []byte) uintptr { return uintptr(unsafe.Pointer(unsafe.SliceData(data))) }

// within says whether an address lies in the pages of data.
func within(data []byte, at uintptr) bool {
	from := address(data) &^ uintptr(pageBytes-1)
	return at >= from && at < address(data)+uintptr(len(data))
}

// Anonymous memory outside the Go heap, zeroed, 2 MiB aligned and in huge pages where large; free releases it. purpose is for
// error messages and, where the kernel can, /proc/PID/maps.
func Anonymous(bytes int, purpose string) (data []byte, free func(), err error) {
	if bytes < 0 {
		return nil, nil, fmt.Errorf("memory for %s: %d bytes", purpose, bytes)
	}
	if bytes == 0 {
		return nil, func() {}, nil
	}
	m, err := realSystem{}.anonymous(int64(bytes), bytes >= hugePage, true, purpose)
	if err != nil {
		return nil, nil, fmt.Errorf("mapping %d bytes of memory for %s: %w", bytes, purpose, err)
	}
	var once sync.Once
	return m, func() { once.Do(func() { _ = realSystem{}.unmap(m) }) }, nil
}
