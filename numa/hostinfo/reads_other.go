//go:build !linux

package hostinfo

import "errors"

// ReadsOfThisProcess is known on Linux only: others count in units of their own.
func ReadsOfThisProcess() (Reads, error) { return Reads{}, errors.ErrUnsupported }
