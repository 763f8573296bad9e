//go:build !linux

package arena

import (
	"errors"
	"fmt"
	"io"
	"os"
)

// realSystem of other platforms has no files: every arena is anonymous memory, which is a Go slice.
type realSystem struct{}

var errNoFiles = fmt.Errorf("arena files need Linux: %w", errors.ErrUnsupported)

func (realSystem) makeFolder(string) error         { return errNoFiles }
func (realSystem) open(string, bool) (file, error) { return nil, errNoFiles }
func (realSystem) openLock(string) (file, error)   { return nil, errNoFiles }
func (realSystem) remove(string) error             { return errNoFiles }
func (realSystem) syncFolder(string) error         { return errNoFiles }
func (realSystem) unmap([]byte) error              { return nil }
func (realSystem) resident([]byte) (bool, error)   { return true, nil }
func (realSystem) populate([]byte) error           { return nil }
func (realSystem) lock([]byte) error               { return errors.ErrUnsupported }
func (realSystem) unlock([]byte) error             { return errors.ErrUnsupported }
func (realSystem) lockRoom() (int64, string)       { return 0, "locking memory needs Linux" }
func (realSystem) smallPages([]byte) error         { return errors.ErrUnsupported }

func (realSystem) forget(data []byte) error {
	clear(data)
	return nil
}

func (s realSystem) reserve(bytes int64, huge bool, name string) ([]byte, error) {
	return s.anonymous(bytes, huge, true, name)
}

func (realSystem) anonymous(bytes int64, _, _ bool, _ string) (data []byte, err error) {
	defer func() {
		if recover() != nil { // makeslice: len out of range
			err = errors.New("not enough address space")
		}
	}()
	all := make([]byte, bytes+int64(pageBytes))
	skip := int64(-address(all) & uintptr(pageBytes-1))
	return all[skip : skip+bytes : skip+bytes], nil
}

func space(string) (Space, error)              { return Space{}, errors.ErrUnsupported }
func openPastCache(*os.File) (*os.File, error) { return nil, errors.ErrUnsupported }
func openSmaps() (io.ReadCloser, error)        { return nil, errors.ErrUnsupported }
