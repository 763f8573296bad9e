package transport

import (
	"encoding/binary"

	"github.com/moepool/moepool/kernels"
)

// zeros is what a bitmap of rows starts as.
var zeros [(MaxRows + 7) / 8]byte

// appendInt32 appends 4 bytes per element, and nothing if an element does not survive that.
func appendInt32(b []byte, sum []int64) ([]byte, bool) {
	at := len(b)
	b = grow(b, 4*len(sum))
	if !kernels.NarrowSums(b[at:], sum) {
		return b[:at], false
	}
	return b, true
}

func appendInt64(b []byte, sum []int64) []byte {
	at := len(b)
	b = grow(b, 8*len(sum))
	copy(b[at:], asBytes(sum))
	swap(b[at:], 8)
	return b
}

// takeInt32 reads len(sum) elements and gives what is left of b.
func takeInt32(sum []int64, b []byte) []byte {
	kernels.WidenSums(sum, b[:4*len(sum)])
	return b[4*len(sum):]
}

func takeInt64(sum []int64, b []byte) []byte {
	for i := range sum {
		sum[i] = int64(binary.LittleEndian.Uint64(b[8*i:]))
	}
	return b[8*len(sum):]
}

// grow makes b longer by n bytes with undefined contents.
func grow(b []byte, n int) []byte {
	if cap(b)-len(b) < n {
		larger := make([]byte, len(b), max(2*cap(b), len(b)+n))
		copy(larger, b)
		b = larger
	}
	return b[:len(b)+n]
}
