package transport

import "encoding/binary"

// zeros is what a bitmap of rows starts as.
var zeros [(MaxRows + 7) / 8]byte

// fitsInt32 says whether every element survives 4 bytes.
func fitsInt32(sum []int64) bool {
	over := uint64(0)
	for _, v := range sum {
		over |= uint64(v+1<<31) >> 32
	}
	return over == 0
}

func appendInt32(b []byte, sum []int64) []byte {
	at := len(b)
	b = grow(b, 4*len(sum))
	d := b[at:]
	for i, v := range sum {
		binary.LittleEndian.PutUint32(d[4*i:], uint32(v))
	}
	return b
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
