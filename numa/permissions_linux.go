package numa

import (
	"runtime"

	"golang.org/x/sys/unix"
)

// Try finds out by making each call in a way that changes nothing: the affinity and policy that the thread has already, a
// memory policy and a question for one page that is released again.
func Try() Permissions {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	var p Permissions
	if cpus, err := ThreadAffinity(0); err == nil {
		p.SetAffinity = SetThreadAffinity(cpus) == nil
	}
	if policy, err := threadPolicy(); err == nil {
		p.SetMempolicy = setThreadPolicy(policy) == nil
	}
	page, err := unix.Mmap(-1, 0, pageSize, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_PRIVATE|unix.MAP_ANONYMOUS)
	if err != nil {
		return p
	}
	defer unix.Munmap(page)
	page[0] = 1
	p.Mbind = bindRange(page, taskPolicy{mode: modeDefault}) == nil
	b := newBatch()
	start, pages := pageRange(page)
	p.MovePages = b.query(start, pages) == nil
	return p
}
