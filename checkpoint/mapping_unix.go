//go:build unix

package checkpoint

import (
	"fmt"
	"math"
	"os"

	"golang.org/x/sys/unix"
)

// mapping is a file mapped read-only and shared, so that its pages are the page cache's own.
type mapping struct{ data []byte }

func newMapping(f *os.File, size int64) (*mapping, error) {
	if size == 0 {
		return &mapping{}, nil
	}
	if size > math.MaxInt {
		return nil, fmt.Errorf("%s: %d bytes cannot be mapped on this platform", f.Name(), size)
	}
	data, err := unix.Mmap(int(f.Fd()), 0, int(size), unix.PROT_READ, unix.MAP_SHARED)
	if err != nil {
		return nil, fmt.Errorf("%s: map %d bytes: %w", f.Name(), size, err)
	}
	return &mapping{data: data}, nil
}

// bytes gives [begin, end) of the file.
func (m *mapping) bytes(begin, end int64) ([]byte, error) { return m.data[begin:end:end], nil }

func (m *mapping) close() error {
	if m.data == nil {
		return nil
	}
	data := m.data
	m.data = nil
	return unix.Munmap(data)
}

// release drops [begin, end), which must lie on page boundaries, from this process's page tables and, where the system lets
// us, from the page cache. It is advice: failing costs memory only.
func (m *mapping) release(f *os.File, begin, end int64) {
	_ = unix.Madvise(m.data[begin:end], unix.MADV_DONTNEED)
	dropFromCache(f, begin, end)
}
