package numa

import (
	"math/bits"
	"unsafe"

	"golang.org/x/sys/unix"
)

// cpuMask is a bit mask of any number of CPUs or nodes, in the kernel's layout (unsigned longs, low bit first). unix.CPUSet
// stops at 1024 CPUs.
type cpuMask []uintptr

const wordBits = bits.UintSize

// newCPUMask gives a mask that holds the numbers; at least one word.
func newCPUMask(numbers []int) cpuMask {
	largest := 0
	for _, n := range numbers {
		largest = max(largest, n)
	}
	mask := make(cpuMask, largest/wordBits+1)
	for _, n := range numbers {
		if n >= 0 {
			mask[n/wordBits] |= 1 << (n % wordBits)
		}
	}
	return mask
}

// list gives the numbers in the mask, ascending.
func (m cpuMask) list() []int {
	numbers := []int{}
	for i, word := range m {
		for ; word != 0; word &= word - 1 {
			numbers = append(numbers, i*wordBits+bits.TrailingZeros(uint(word)))
		}
	}
	return numbers
}

// set makes the mask the affinity of a thread.
func (m cpuMask) set(thread int) error {
	_, _, errno := unix.RawSyscall(unix.SYS_SCHED_SETAFFINITY, uintptr(thread), uintptr(len(m)*wordBits/8),
		uintptr(unsafe.Pointer(&m[0])))
	if errno != 0 {
		return errno
	}
	return nil
}

// get reads the affinity of a thread.
func (m cpuMask) get(thread int) error {
	_, _, errno := unix.RawSyscall(unix.SYS_SCHED_GETAFFINITY, uintptr(thread), uintptr(len(m)*wordBits/8),
		uintptr(unsafe.Pointer(&m[0])))
	if errno != 0 {
		return errno
	}
	return nil
}
