//go:build !linux

package numa

import "errors"

// PinThread binds the calling OS thread to one CPU; only Linux can.
func PinThread(cpu int) error { return errors.ErrUnsupported }
