//go:build !unix

package checkpoint

import (
	"fmt"
	"io"
	"os"
)

// mapping stands in for a mapped file where there are none: bytes reads what is asked for into memory.
type mapping struct{ file *os.File }

func newMapping(f *os.File, size int64) (*mapping, error) { return &mapping{file: f}, nil }

// bytes reads [begin, end) of the file.
func (m *mapping) bytes(begin, end int64) ([]byte, error) {
	data := make([]byte, end-begin)
	if _, err := io.ReadFull(io.NewSectionReader(m.file, begin, end-begin), data); err != nil {
		return nil, fmt.Errorf("%s: read [%d, %d): %w", m.file.Name(), begin, end, err)
	}
	return data, nil
}

func (m *mapping) close() error { return nil }

// release has nothing to do: the memory goes with the tensor.
func (m *mapping) release(f *os.File, begin, end int64) {}
