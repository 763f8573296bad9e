package transport

import "encoding/binary"

// zeros is what a bitmap of rows starts as.
var zeros [(MaxRows + 7) / 8]byte

// appendInt32 appends 4 bytes per element, and nothing if an element does not survive that.
func appendInt32(b []byte, sum []int64) ([]byte, bool) {
	at := len(b)
	b = grow(b, 4*len(sum))
	d, over := b[at:], uint64(0)
	for ; len(sum) >= 4 && len(d) >= 16; sum, d = sum[4:], d[16:] {
		v0, v1, v2, v3 := sum[0], sum[1], sum[2], sum[3]
		binary.LittleEndian.PutUint64(d[0:8], uint64(uint32(v0))|uint64(v1)<<32)
		binary.LittleEndian.PutUint64(d[8:16], uint64(uint32(v2))|uint64(v3)<<32)
		over |= uint64(v0+1<<31) | uint64(v1+1<<31) | uint64(v2+1<<31) | uint64(v3+1<<31)
	}
	for i, v := range sum {
		binary.LittleEndian.PutUint32(d[4*i:], uint32(v))
		over |= uint64(v + 1<<31)
	}
	if over>>32 != 0 {
		return b[:at], false
	}
	return b, true
}

func appendInt64(b []byte, sum []int64) []byte {
	at := len(b)
	b = grow(b, 8*len(sum))
	d := b[at:]
	for i, v := range sum {
		binary.LittleEndian.PutUint64(d[8*i:], uint64(v))
	}
	return b
}

// takeInt32 reads len(sum) elements and gives what is left of b.
func takeInt32(sum []int64, b []byte) []byte {
	for ; len(sum) >= 4 && len(b) >= 16; sum, b = sum[4:], b[16:] {
		low, high := binary.LittleEndian.Uint64(b[0:8]), binary.LittleEndian.Uint64(b[8:16])
		sum[0], sum[1] = int64(int32(low)), int64(low)>>32
		sum[2], sum[3] = int64(int32(high)), int64(high)>>32
	}
	for i := range sum {
		sum[i] = int64(int32(binary.LittleEndian.Uint32(b[4*i:])))
	}
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
