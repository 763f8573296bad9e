//go:build linux

package main

import (
	"fmt"
	"os"
	"sync/atomic"
	"time"
	"unsafe"

	"golang.org/x/sync/errgroup"
	"golang.org/x/sys/unix"
)

const (
	readPiece = 4 << 20
	readers   = 4
)

// sequentialSpeed reads a file in large pieces past the page cache, several at once, and gives bytes a second. Holes count as
// nothing: only pieces that the file has are read.
func sequentialSpeed(path string) (float64, error) {
	f, err := os.OpenFile(path, os.O_RDONLY|unix.O_DIRECT, 0)
	if err != nil {
		return 0, err
	}
	defer f.Close()
	var pieces []int64
	for at := int64(0); ; {
		data, err := unix.Seek(int(f.Fd()), at, unix.SEEK_DATA)
		if err == unix.ENXIO {
			break
		}
		if err != nil {
			return 0, err
		}
		end, err := unix.Seek(int(f.Fd()), data, unix.SEEK_HOLE)
		if err != nil {
			return 0, err
		}
		for ; data+readPiece <= end; data += readPiece {
			pieces = append(pieces, data)
		}
		at = end
	}
	if len(pieces) == 0 {
		return 0, fmt.Errorf("%s has no %d bytes in a row", path, readPiece)
	}
	var next, bytes atomic.Int64
	group := errgroup.Group{}
	begin := time.Now()
	for range readers {
		group.Go(func() error {
			buffer, err := unix.Mmap(-1, 0, readPiece, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_ANON|unix.MAP_PRIVATE) // aligned
			if err != nil {
				return err
			}
			defer unix.Munmap(buffer)
			for {
				i := next.Add(1) - 1
				if i >= int64(len(pieces)) {
					return nil
				}
				n, err := f.ReadAt(buffer, pieces[i])
				if err != nil {
					return err
				}
				bytes.Add(int64(n))
			}
		})
	}
	if err := group.Wait(); err != nil {
		return 0, err
	}
	return float64(bytes.Load()) / time.Since(begin).Seconds(), nil
}

// faultSpeed touches one page after the other of a cold file that is mapped without readahead, as a kernel that computes on it would.
func faultSpeed(path string) (float64, error) {
	f, err := os.Open(path)
	if err != nil {
		return 0, err
	}
	defer f.Close()
	from, err := unix.Seek(int(f.Fd()), 4<<20, unix.SEEK_DATA)
	if err != nil {
		return 0, err
	}
	const size, page = 64 << 20, 4096
	data, err := unix.Mmap(int(f.Fd()), from&^(page-1), size, unix.PROT_READ, unix.MAP_SHARED)
	if err != nil {
		return 0, err
	}
	defer unix.Munmap(data)
	if err := unix.Madvise(data, unix.MADV_RANDOM); err != nil {
		return 0, err
	}
	before, err := readCounts(os.Getpid())
	if err != nil {
		return 0, err
	}
	begin, sum := time.Now(), byte(0)
	for i := 0; i < size; i += page {
		sum += *(*byte)(unsafe.Pointer(&data[i]))
	}
	took := time.Since(begin).Seconds()
	touched.Store(uint32(sum))
	after, err := readCounts(os.Getpid())
	return float64(after.read-before.read) / took, err
}

// touched keeps the compiler from leaving the reads out.
var touched atomic.Uint32
