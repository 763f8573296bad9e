//go:build unix && !linux

package children

import "syscall"

// attributes gives a child its own process group; there is no parent-death signal here, only the pipe.
func attributes() *syscall.SysProcAttr { return &syscall.SysProcAttr{Setpgid: true} }
