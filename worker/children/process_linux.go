package children

import "syscall"

// attributes ties a child to this process: its own process group, so that Ctrl-C at the terminal reaches the parent only, and a
// signal that it can't ignore when the parent dies.
func attributes() *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL}
}
