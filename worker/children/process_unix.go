//go:build unix

package children

import (
	"errors"
	"os"
	"syscall"
)

func terminate(p *os.Process) error {
	if err := p.Signal(syscall.SIGTERM); err != nil {
		return err
	}
	return p.Signal(syscall.SIGCONT) // a stopped process takes no other signal but the one that kills
}

// openPipe makes a file of an inherited pipe, such that its reads can be interrupted by closing it.
func openPipe(fd int) (*os.File, error) {
	var st syscall.Stat_t
	if err := syscall.Fstat(fd, &st); err != nil {
		return nil, err
	}
	if st.Mode&syscall.S_IFMT != syscall.S_IFIFO {
		return nil, errors.New("not a pipe")
	}
	syscall.CloseOnExec(fd)
	if err := syscall.SetNonblock(fd, true); err != nil {
		return nil, err
	}
	return os.NewFile(uintptr(fd), "pipe from the parent process"), nil
}
