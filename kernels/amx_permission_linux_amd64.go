//go:build !purego

package kernels

import (
	"errors"
	"fmt"
	"sync"
	"unsafe"

	"golang.org/x/sys/unix"
)

// Requests of arch_prctl and the bit of the tiles' registers in the processor's state (Linux 5.16, asm/prctl.h and asm/fpu/types.h).
const (
	archGetXComponentPermission     = 0x1022
	archRequestXComponentPermission = 0x1023
	xComponentTileData              = 18
)

// amxPermission asks the kernel to let this process use AMX: without, its first tile instruction would end it with SIGILL. It is
// asked once, for all threads, and is lost by exec. The answer of a CPU without AMX is a refusal, too.
var amxPermission = sync.OnceValue(func() error {
	if _, _, errno := unix.RawSyscall(unix.SYS_ARCH_PRCTL, archRequestXComponentPermission, xComponentTileData, 0); errno != 0 {
		return fmt.Errorf("the kernel refuses this process the use of AMX: arch_prctl(ARCH_REQ_XCOMP_PERM): %w", errno)
	}
	var permitted uint64
	_, _, errno := unix.RawSyscall(unix.SYS_ARCH_PRCTL, archGetXComponentPermission, uintptr(unsafe.Pointer(&permitted)), 0)
	if errno != 0 || permitted>>xComponentTileData&1 == 0 {
		return errors.New("the kernel does not let this process use AMX, though it was asked: arch_prctl(ARCH_GET_XCOMP_PERM)")
	}
	return nil
})
