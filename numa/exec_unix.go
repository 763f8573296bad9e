//go:build unix

package numa

import (
	"errors"
	"fmt"
	"os"
	"runtime"
	"syscall"
)

// ExecPinned binds the calling thread to the node (affinity, task memory policy: preferred, or bind if strict) and replaces
// the process by this program with argv and env; it returns only on error, and then the thread is as it was. What can't be bound is
// no error: the new image calls Bound, whose Problems say it.
//
// Exec is what makes it hold for every thread: the Go runtime starts threads before main, and a policy that is set later misses
// them.
func ExecPinned(n *Node, strict bool, argv, env []string) error {
	if len(argv) == 0 {
		return errors.New("exec for a NUMA node: no arguments, the program's name is needed at least")
	}
	runtime.LockOSThread()
	binding, undo := bindThread(n, strict)
	env, err := withBinding(env, binding)
	if err == nil {
		err = execSelf(argv, env)
	}
	if undo() {
		runtime.UnlockOSThread()
	} // else the runtime must not give this thread to another goroutine
	return fmt.Errorf("exec for NUMA node %d: %w", n.ID, err)
}

// execSelf replaces the process by its own program.
func execSelf(argv, env []string) error {
	// By its path, since the kernel names a process after it. The link works even if the file was replaced meanwhile.
	const link = "/proc/self/exe"
	path, err := os.Executable()
	if err != nil {
		return err
	}
	if running, err := os.Stat(link); err == nil {
		if file, err := os.Stat(path); err != nil || !os.SameFile(running, file) {
			path = link
		}
	}
	return syscall.Exec(path, argv, env)
}
