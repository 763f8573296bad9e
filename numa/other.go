//go:build !linux

package numa

import (
	"errors"
	"runtime"
)

// Read gives one node with all CPUs.
func Read() (*Topology, error) {
	cpus := make([]int, runtime.NumCPU())
	for i := range cpus {
		cpus[i] = i
	}
	return &Topology{Nodes: []Node{{CPUs: cpus, Cores: cpus}}, Allowed: cpus}, nil
}

// PinThread binds the calling OS thread to one CPU; only Linux can.
func PinThread(cpu int) error { return errors.ErrUnsupported }

// SetThreadAffinity binds the calling OS thread to the CPUs; only Linux can.
func SetThreadAffinity(cpus []int) error { return errors.ErrUnsupported }

// ThreadAffinity gives the CPUs that a thread may run on; only Linux can.
func ThreadAffinity(thread int) ([]int, error) { return nil, errors.ErrUnsupported }

// CurrentCPU is the CPU that the calling thread runs on, -1 if unknown.
func CurrentCPU() int { return -1 }

// Locate takes all pages for local: there is one node.
func Locate(data []byte, node int) (Pages, error) {
	return Pages{Local: int64((len(data) + pageSize - 1) / pageSize)}, nil
}

// Migrate has nowhere to move pages to.
func Migrate(data []byte, node int) (Pages, error) { return Locate(data, node) }

// Prefer has no other node to prefer.
func Prefer(data []byte, node int, strict bool) error { return nil }

// Try permits nothing.
func Try() Permissions { return Permissions{} }

const pageSize = 4096

func bindThread(n *Node, strict bool) (b *Binding, undo func() bool) {
	b = &Binding{Node: n.ID, CPUs: n.CPUs, Policy: PolicyNone}
	b.problem("%s has no calls to bind threads and memory to a node", runtime.GOOS)
	return b, func() bool { return true }
}

func (b *Binding) verify() {}
