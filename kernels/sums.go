package kernels

import "encoding/binary"

// Sums of experts' contributions are int64; in most rows each fits into 4 bytes, which is how they travel. What is done to them is
// exact, so it doesn't belong to a Set: the fastest that this CPU runs is taken.

// NarrowSums stores each element of sum as 4 bytes, little-endian, in dst [4·len(sum)]. false: an element doesn't fit into an int32; dst is
// then undefined.
func NarrowSums(dst []byte, sum []int64) bool {
	mustEqual("length of dst", len(dst), 4*len(sum))
	return narrowSums(dst, sum)
}

// WidenSums is NarrowSums' inverse: src holds 4·len(sum) bytes.
func WidenSums(sum []int64, src []byte) {
	mustEqual("length of src", len(src), 4*len(sum))
	widenSums(sum, src)
}

// AddSums adds each element of part to that of sum, of the same length. Overflow wraps.
func AddSums(sum, part []int64) {
	mustEqual("length of part", len(part), len(sum))
	addSums(sum, part)
}

func narrowSumsGeneric(dst []byte, sum []int64) bool {
	over := uint64(0)
	for i, v := range sum {
		binary.LittleEndian.PutUint32(dst[4*i:], uint32(v))
		over |= uint64(v + 1<<31)
	}
	return over>>32 == 0
}

func widenSumsGeneric(sum []int64, src []byte) {
	for i := range sum {
		sum[i] = int64(int32(binary.LittleEndian.Uint32(src[4*i:])))
	}
}

func addSumsGeneric(sum, part []int64) {
	for i := range sum {
		sum[i] += part[i]
	}
}
