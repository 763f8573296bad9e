package transport

import (
	"encoding/binary"
	"fmt"
	"math"
)

// wire is one pass over a message's fields: it appends them to buf, or takes them from it. The first problem is kept in err
// and everything after it does nothing. It is the subset of msgpack that the messages need: arrays, integers, booleans,
// floats, strings and bin.
type wire struct {
	buf     []byte
	reading bool
	err     error
}

func (w *wire) fail(name, format string, args ...any) {
	if w.err == nil {
		w.err = &malformedError{name + ": " + fmt.Sprintf(format, args...)}
	}
}

// malformedError says which field of a frame is wrong.
type malformedError struct{ text string }

func (e *malformedError) Error() string { return e.text }

// take removes n bytes that are to be read.
func (w *wire) take(name string, n uint64) []byte {
	if w.err != nil {
		return nil
	}
	if uint64(len(w.buf)) < n {
		w.fail(name, "%d bytes expected, %d left", n, len(w.buf))
		return nil
	}
	b := w.buf[:n]
	w.buf = w.buf[n:]
	return b
}

func (w *wire) takeUint(name string, size uint64) uint64 {
	b := w.take(name, size)
	if b == nil {
		return 0
	}
	switch size {
	case 1:
		return uint64(b[0])
	case 2:
		return uint64(binary.BigEndian.Uint16(b))
	case 4:
		return uint64(binary.BigEndian.Uint32(b))
	default:
		return binary.BigEndian.Uint64(b)
	}
}

// head takes the byte that says what follows.
func (w *wire) head(name string) byte {
	b := w.take(name, 1)
	if b == nil {
		return 0xc1 // never used by msgpack
	}
	return b[0]
}

func (w *wire) wrong(name, expected string, head byte) {
	w.fail(name, "%s expected, found type 0x%02x", expected, head)
}

// uint64 is an unsigned integer of at most max.
func (w *wire) uint64(v *uint64, name string, max uint64) {
	if w.err != nil {
		return
	}
	if w.reading {
		switch h := w.head(name); {
		case h < 0x80:
			*v = uint64(h)
		case h >= 0xcc && h <= 0xcf:
			*v = w.takeUint(name, 1<<(h-0xcc))
		default:
			w.wrong(name, "unsigned integer", h)
		}
	}
	if w.err == nil && *v > max {
		w.fail(name, "%d is above the limit %d", *v, max)
	}
	if !w.reading && w.err == nil {
		w.appendUint(*v)
	}
}

func (w *wire) appendUint(v uint64) {
	switch {
	case v < 0x80:
		w.buf = append(w.buf, byte(v))
	case v <= math.MaxUint8:
		w.buf = append(w.buf, 0xcc, byte(v))
	case v <= math.MaxUint16:
		w.buf = binary.BigEndian.AppendUint16(append(w.buf, 0xcd), uint16(v))
	case v <= math.MaxUint32:
		w.buf = binary.BigEndian.AppendUint32(append(w.buf, 0xce), uint32(v))
	default:
		w.buf = binary.BigEndian.AppendUint64(append(w.buf, 0xcf), v)
	}
}

// int64 is a signed integer in [min, max].
func (w *wire) int64(v *int64, name string, min, max int64) {
	if w.err != nil {
		return
	}
	if w.reading {
		switch h := w.head(name); {
		case h < 0x80 || h >= 0xe0:
			*v = int64(int8(h))
		case h >= 0xcc && h <= 0xcf:
			u := w.takeUint(name, 1<<(h-0xcc))
			if u > math.MaxInt64 {
				w.fail(name, "%d is above the limit %d", u, max)
				return
			}
			*v = int64(u)
		case h == 0xd0:
			*v = int64(int8(w.takeUint(name, 1)))
		case h == 0xd1:
			*v = int64(int16(w.takeUint(name, 2)))
		case h == 0xd2:
			*v = int64(int32(w.takeUint(name, 4)))
		case h == 0xd3:
			*v = int64(w.takeUint(name, 8))
		default:
			w.wrong(name, "integer", h)
		}
	}
	if w.err == nil && (*v < min || *v > max) {
		w.fail(name, "%d is outside [%d, %d]", *v, min, max)
	}
	if w.reading || w.err != nil {
		return
	}
	if *v >= 0 {
		w.appendUint(uint64(*v))
	} else {
		w.buf = binary.BigEndian.AppendUint64(append(w.buf, 0xd3), uint64(*v))
	}
}

// int is an int in [min, max].
func (w *wire) int(v *int, name string, min, max int) {
	n := int64(*v)
	w.int64(&n, name, int64(min), int64(max))
	if w.reading && w.err == nil {
		*v = int(n)
	}
}

func (w *wire) uint32(v *uint32, name string) {
	n := uint64(*v)
	w.uint64(&n, name, math.MaxUint32)
	if w.reading && w.err == nil {
		*v = uint32(n)
	}
}

func (w *wire) bool(v *bool, name string) {
	switch {
	case w.err != nil:
	case !w.reading && *v:
		w.buf = append(w.buf, 0xc3)
	case !w.reading:
		w.buf = append(w.buf, 0xc2)
	default:
		h := w.head(name)
		if h != 0xc2 && h != 0xc3 {
			w.wrong(name, "boolean", h)
			return
		}
		*v = h == 0xc3
	}
}

func (w *wire) float32(v *float32, name string) {
	switch {
	case w.err != nil:
	case !w.reading:
		w.buf = binary.BigEndian.AppendUint32(append(w.buf, 0xca), math.Float32bits(*v))
	default:
		if h := w.head(name); h != 0xca {
			w.wrong(name, "float32", h)
			return
		}
		*v = math.Float32frombits(uint32(w.takeUint(name, 4)))
	}
}

func (w *wire) float64(v *float64, name string) {
	switch {
	case w.err != nil:
	case !w.reading:
		w.buf = binary.BigEndian.AppendUint64(append(w.buf, 0xcb), math.Float64bits(*v))
	default:
		if h := w.head(name); h != 0xcb {
			w.wrong(name, "float64", h)
			return
		}
		*v = math.Float64frombits(w.takeUint(name, 8))
	}
}

// string is a text of at most max bytes.
func (w *wire) string(v *string, name string, max int) {
	if w.err != nil {
		return
	}
	if !w.reading {
		n := len(*v)
		switch {
		case n > max:
			w.fail(name, "%d bytes are above the limit %d", n, max)
			return
		case n < 32:
			w.buf = append(w.buf, 0xa0|byte(n))
		case n <= math.MaxUint8:
			w.buf = append(w.buf, 0xd9, byte(n))
		case n <= math.MaxUint16:
			w.buf = binary.BigEndian.AppendUint16(append(w.buf, 0xda), uint16(n))
		default:
			w.buf = binary.BigEndian.AppendUint32(append(w.buf, 0xdb), uint32(n))
		}
		w.buf = append(w.buf, *v...)
		return
	}
	var n uint64
	switch h := w.head(name); {
	case h >= 0xa0 && h < 0xc0:
		n = uint64(h & 0x1f)
	case h >= 0xd9 && h <= 0xdb:
		n = w.takeUint(name, 1<<(h-0xd9))
	default:
		w.wrong(name, "text", h)
	}
	if w.err == nil && n > uint64(max) {
		w.fail(name, "%d bytes are above the limit %d", n, max)
	}
	if b := w.take(name, n); w.err == nil && string(b) != *v {
		*v = string(b)
	}
}

// array is the head of an array of exactly n fields.
func (w *wire) array(name string, n int) {
	got := n
	w.count(&got, name, 0, n)
	if w.err == nil && got != n {
		w.fail(name, "%d fields expected, found %d", n, got)
	}
}

// count is the head of an array of up to max elements of at least size bytes each.
func (w *wire) count(n *int, name string, size, max int) {
	if w.err != nil {
		return
	}
	if !w.reading {
		switch v := *n; {
		case v > max:
			w.fail(name, "%d elements are above the limit %d", v, max)
		case v < 16:
			w.buf = append(w.buf, 0x90|byte(v))
		case v <= math.MaxUint16:
			w.buf = binary.BigEndian.AppendUint16(append(w.buf, 0xdc), uint16(v))
		default:
			w.buf = binary.BigEndian.AppendUint32(append(w.buf, 0xdd), uint32(v))
		}
		return
	}
	var v uint64
	switch h := w.head(name); {
	case h >= 0x90 && h < 0xa0:
		v = uint64(h & 0x0f)
	case h == 0xdc:
		v = w.takeUint(name, 2)
	case h == 0xdd:
		v = w.takeUint(name, 4)
	default:
		w.wrong(name, "array", h)
	}
	switch {
	case w.err != nil:
	case v > uint64(max):
		w.fail(name, "%d elements are above the limit %d", v, max)
	case v*uint64(size) > uint64(len(w.buf)):
		w.fail(name, "%d elements announced, %d bytes left", v, len(w.buf))
	default:
		*n = int(v)
	}
}

// appendBin appends the head of a bin field of n bytes.
func (w *wire) appendBin(n uint64) {
	switch {
	case n <= math.MaxUint8:
		w.buf = append(w.buf, 0xc4, byte(n))
	case n <= math.MaxUint16:
		w.buf = binary.BigEndian.AppendUint16(append(w.buf, 0xc5), uint16(n))
	default:
		w.buf = binary.BigEndian.AppendUint32(append(w.buf, 0xc6), uint32(n))
	}
}

// takeBin takes a bin field; it aliases the frame.
func (w *wire) takeBin(name string) []byte {
	if w.err != nil {
		return nil
	}
	h := w.head(name)
	if h < 0xc4 || h > 0xc6 {
		w.wrong(name, "bin", h)
		return nil
	}
	return w.take(name, w.takeUint(name, 1<<(h-0xc4)))
}

// bytes is a bin field of at most max bytes.
func (w *wire) bytes(v *[]byte, name string, max int) {
	if w.err == nil && !w.reading {
		if len(*v) > max {
			w.fail(name, "%d bytes are above the limit %d", len(*v), max)
			return
		}
		w.appendBin(uint64(len(*v)))
		w.buf = append(w.buf, *v...)
		return
	}
	b := w.takeBin(name)
	if w.err == nil && len(b) > max {
		w.fail(name, "%d bytes are above the limit %d", len(b), max)
	}
	if w.err == nil {
		*v = append((*v)[:0], b...)
	}
}

// end checks that nothing is left.
func (w *wire) end() {
	if w.reading && w.err == nil && len(w.buf) != 0 {
		w.fail("frame", "%d bytes too many", len(w.buf))
	}
}
