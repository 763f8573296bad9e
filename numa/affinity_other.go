//go:build !linux

package numa

import "errors"

// PinThread binds the calling OS thread to one CPU; only Linux can.
func PinThread(cpu int) error { return errors.ErrUnsupported }

// SetThreadAffinity binds the calling OS thread to the CPUs; only Linux can.
func SetThreadAffinity(cpus []int) error { return errors.ErrUnsupported }

// ThreadAffinity gives the CPUs that a thread may run on; only Linux can.
func ThreadAffinity(thread int) ([]int, error) { return nil, errors.ErrUnsupported }

// CurrentCPU is the CPU that the calling thread runs on, -1 if unknown.
func CurrentCPU() int { return -1 }
