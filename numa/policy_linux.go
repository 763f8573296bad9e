package numa

import (
	"fmt"
	"os"
	"unsafe"

	"golang.org/x/sys/unix"
)

// maxNodes is more than any kernel has; it wants room for all its nodes.
const maxNodes = 1024

// nodeMask gives a mask with room for maxNodes and the size to tell the kernel, which looks at one bit less.
func nodeMask(nodes []int) (mask cpuMask, size uintptr, err error) {
	for _, n := range nodes {
		if n < 0 || n >= maxNodes {
			return nil, 0, fmt.Errorf("node %d: %w", n, unix.EINVAL)
		}
	}
	mask = make(cpuMask, maxNodes/wordBits)
	copy(mask, newCPUMask(nodes))
	return mask, maxNodes + 1, nil
}

// threadPolicy gives the policy of the calling thread.
func threadPolicy() (taskPolicy, error) {
	mask, size, _ := nodeMask(nil)
	var m int32
	_, _, errno := unix.RawSyscall6(unix.SYS_GET_MEMPOLICY, uintptr(unsafe.Pointer(&m)), uintptr(unsafe.Pointer(&mask[0])),
		size, 0, 0, 0)
	if errno != 0 {
		return taskPolicy{}, fmt.Errorf("get_mempolicy: %w", errno)
	}
	return taskPolicy{mode: mode(m), nodes: mask.list()}, nil
}

// setThreadPolicy sets the policy of the calling thread, which is locked.
func setThreadPolicy(p taskPolicy) error {
	mask, size, err := nodeMask(p.nodes)
	if err != nil {
		return fmt.Errorf("set_mempolicy: %w", err)
	}
	_, _, errno := unix.RawSyscall(unix.SYS_SET_MEMPOLICY, uintptr(p.mode), uintptr(unsafe.Pointer(&mask[0])), size)
	if errno != 0 {
		return fmt.Errorf("set_mempolicy: %w", errno)
	}
	return nil
}

// Prefer sets the VMA policy of a mapping (works for anonymous memory and tmpfs; a file system on a disk ignores it): its pages are
// taken from the node, or from no other if strict. Whole pages are set, those that data only touches as well. Pages that are
// already there stay where they are.
func Prefer(data []byte, node int, strict bool) error {
	if len(data) == 0 {
		return nil
	}
	policy := taskPolicy{mode: modePreferred, nodes: []int{node}}
	if strict {
		policy.mode = modeBind
	}
	if err := bindRange(data, policy); err != nil {
		return fmt.Errorf("memory policy of %d bytes for node %d: %w", len(data), node, err)
	}
	return nil
}

// bindRange is mbind of the pages that data touches.
func bindRange(data []byte, p taskPolicy) error {
	mask, size, err := nodeMask(p.nodes)
	if err != nil {
		return err
	}
	start, pages := pageRange(data)
	_, _, errno := unix.Syscall6(unix.SYS_MBIND, start, uintptr(pages*pageSize), uintptr(p.mode),
		uintptr(unsafe.Pointer(&mask[0])), size, 0)
	if errno != 0 {
		return fmt.Errorf("mbind: %w", errno)
	}
	return nil
}

var pageSize = os.Getpagesize()

// pageRange gives the address of the first page that data touches, and how many pages it touches. The kernel refuses an address
// inside a page.
func pageRange(data []byte) (start uintptr, pages int) {
	address := uintptr(unsafe.Pointer(unsafe.SliceData(data)))
	start = address &^ uintptr(pageSize-1)
	return start, (int(address-start) + len(data) + pageSize - 1) / pageSize
}
