//go:build !unix

package children

import (
	"os"
	"syscall"
)

func attributes() *syscall.SysProcAttr { return nil }

// terminate kills: there is no signal to ask with.
func terminate(p *os.Process) error { return p.Kill() }

func openPipe(fd int) (*os.File, error) {
	return os.NewFile(uintptr(fd), "pipe from the parent process"), nil
}
