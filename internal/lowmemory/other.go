//go:build !linux

package lowmemory

import (
	"fmt"
	"os/exec"
	"runtime"
)

// Group is a memory group; there are none on this system.
type Group struct{}

// Usage is what a group's processes have taken.
type Usage struct {
	Peak     int64
	OOMKills int
}

var errSystem = fmt.Errorf("%w: this is %s", ErrUnavailable, runtime.GOOS)

// New fails with ErrUnavailable.
func New(limit int64) (*Group, error) { return nil, errSystem }

// Wrap changes nothing.
func (g *Group) Wrap(cmd *exec.Cmd) {}

// Usage fails with ErrUnavailable.
func (g *Group) Usage() (Usage, error) { return Usage{}, errSystem }

// Close does nothing.
func (g *Group) Close() error { return nil }

// Forget fails with ErrUnavailable.
func Forget(folder string) error { return errSystem }
