package numa_test

import (
	"fmt"
	"runtime"
	"slices"

	"github.com/moepool/moepool/numa"
)

// pinAndCompare pins the calling goroutine's thread, which it locks.
func pinAndCompare() error {
	runtime.LockOSThread()
	allowed, err := numa.ThreadAffinity(0)
	if err != nil {
		return err
	}
	for _, cpu := range allowed {
		if err := numa.PinThread(cpu); err != nil {
			return err
		}
		got, err := numa.ThreadAffinity(0)
		if err != nil {
			return err
		}
		if !slices.Equal(got, []int{cpu}) || numa.CurrentCPU() != cpu {
			return fmt.Errorf("pinned to CPU %d: affinity %v, on CPU %d", cpu, got, numa.CurrentCPU())
		}
	}
	if err := numa.PinThread(1 << 19); err == nil {
		return fmt.Errorf("pinned to a CPU that does not exist")
	}
	return nil
}
