package transport

import (
	"encoding/binary"
	"unsafe"
)

// littleEndian says that memory has the wire's byte order, so that tensors are copied as they are.
var littleEndian = binary.NativeEndian.Uint16([]byte{1, 0}) == 1

// element is what tensors are made of.
type element interface {
	~int8 | ~uint8 | ~int32 | ~uint32 | ~float32 | ~int64
}

// tensor is a bin field of exactly n elements, little-endian. Memory of *v is reused.
func tensor[T element](w *wire, v *[]T, name string, n uint64) {
	if w.err != nil {
		return
	}
	var zero T
	size := uint64(unsafe.Sizeof(zero))
	if !w.reading {
		if uint64(len(*v)) != n {
			w.fail(name, "%d elements, the message's sizes say %d", len(*v), n)
			return
		}
		if n*size > MaxMessage {
			w.fail(name, "%d bytes are above the limit %d", n*size, MaxMessage)
			return
		}
		w.appendBin(n * size)
		at := len(w.buf)
		w.buf = append(w.buf, asBytes(*v)...)
		swap(w.buf[at:], int(size))
		return
	}
	b := w.takeBin(name)
	if w.err == nil && uint64(len(b)) != n*size {
		w.fail(name, "%d bytes, the message's sizes say %d", len(b), n*size)
	}
	if w.err != nil {
		return
	}
	*v = resize(*v, int(n))
	copy(asBytes(*v), b)
	swap(asBytes(*v), int(size))
}

// list is a tensor of any length up to max.
func list[T element](w *wire, v *[]T, name string, max int) {
	if w.err != nil {
		return
	}
	n := uint64(len(*v))
	if w.reading {
		var zero T
		size := uint64(unsafe.Sizeof(zero))
		ahead := *w
		bytes := uint64(len(ahead.takeBin(name)))
		if ahead.err != nil {
			w.err = ahead.err
			return
		}
		if bytes%size != 0 {
			w.fail(name, "%d bytes are not a multiple of %d", bytes, size)
			return
		}
		n = bytes / size
	}
	if n > uint64(max) {
		w.fail(name, "%d elements are above the limit %d", n, max)
		return
	}
	tensor(w, v, name, n)
}

// resize gives a slice of n elements with undefined contents, in v's memory where it suffices.
func resize[T any](v []T, n int) []T {
	if cap(v) < n {
		return make([]T, n)
	}
	return v[:n]
}

// asBytes is the memory of v.
func asBytes[T element](v []T) []byte {
	if len(v) == 0 {
		return nil
	}
	return unsafe.Slice((*byte)(unsafe.Pointer(unsafe.SliceData(v))), len(v)*int(unsafe.Sizeof(v[0])))
}

// swap turns elements of size bytes from the host's order into the wire's, or back.
func swap(b []byte, size int) {
	if !littleEndian {
		reverseElements(b, size)
	}
}

func reverseElements(b []byte, size int) {
	for ; len(b) >= size; b = b[size:] {
		for i, j := 0, size-1; i < j; i, j = i+1, j-1 {
			b[i], b[j] = b[j], b[i]
		}
	}
}
