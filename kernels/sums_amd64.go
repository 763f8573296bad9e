//go:build !purego

package kernels

import "golang.org/x/sys/cpu"

func narrowSums(dst []byte, sum []int64) bool {
	for cpu.X86.HasAVX2 && len(sum) >= 8 {
		n := min(len(sum)&^7, callElements)
		if !narrowSumsCall(dst, sum[:n]) {
			return false
		}
		dst, sum = dst[4*n:], sum[n:]
	}
	return narrowSumsGeneric(dst, sum)
}

//go:noinline
func narrowSumsCall(dst []byte, sum []int64) bool { return narrowSumsAVX2(&dst[0], &sum[0], len(sum)) }

func widenSums(sum []int64, src []byte) {
	for cpu.X86.HasAVX2 && len(sum) >= 8 {
		n := min(len(sum)&^7, callElements)
		widenSumsCall(sum[:n], src)
		sum, src = sum[n:], src[4*n:]
	}
	widenSumsGeneric(sum, src)
}

//go:noinline
func widenSumsCall(sum []int64, src []byte) { widenSumsAVX2(&sum[0], &src[0], len(sum)) }

func addSums(sum, part []int64) {
	for cpu.X86.HasAVX2 && len(sum) >= 8 {
		n := min(len(sum)&^7, callElements)
		addSumsCall(sum[:n], part)
		sum, part = sum[n:], part[n:]
	}
	addSumsGeneric(sum, part)
}

//go:noinline
func addSumsCall(sum, part []int64) { addSumsAVX2(&sum[0], &part[0], len(sum)) }
