package numa

import (
	"fmt"
	"unsafe"

	"golang.org/x/sys/unix"
)

// PinThread binds the calling OS thread (locked by the caller) to one CPU. The error says which CPU was refused.
func PinThread(cpu int) error { return SetThreadAffinity([]int{cpu}) }

// SetThreadAffinity binds the calling OS thread (locked by the caller) to the CPUs.
func SetThreadAffinity(cpus []int) error {
	mask := newCPUMask(cpus)
	if err := mask.set(0); err != nil {
		return fmt.Errorf("sched_setaffinity to CPUs %s: %w", FormatList(cpus), err)
	}
	return nil
}

// ThreadAffinity gives the CPUs that a thread may run on; 0 is the calling thread.
func ThreadAffinity(thread int) ([]int, error) {
	// The kernel refuses a mask that is smaller than its own (EINVAL): grow until it fits.
	for words := 16; words <= 1<<14; words *= 2 {
		mask := make(cpuMask, words)
		err := mask.get(thread)
		if err == unix.EINVAL {
			continue
		}
		if err != nil {
			return nil, fmt.Errorf("sched_getaffinity of thread %d: %w", thread, err)
		}
		return mask.list(), nil
	}
	return nil, fmt.Errorf("sched_getaffinity of thread %d: the kernel's CPU mask has more than %d bits", thread, 1<<14*wordBits)
}

// CurrentCPU is the CPU that the calling thread runs on, -1 if unknown.
func CurrentCPU() int {
	var cpu uint32
	if _, _, errno := unix.RawSyscall(unix.SYS_GETCPU, uintptr(unsafe.Pointer(&cpu)), 0, 0); errno != 0 {
		return -1
	}
	return int(cpu)
}
