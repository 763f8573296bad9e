package numa

import (
	"os"

	"golang.org/x/sys/unix"
)

// Read gives the topology of this host for this process: its affinity is that of the main thread.
func Read() (*Topology, error) {
	allowed, err := ThreadAffinity(os.Getpid())
	if err != nil {
		return nil, err
	}
	t, err := ReadFrom(os.DirFS("/sys"), allowed)
	if err != nil {
		return nil, err
	}
	if len(t.Nodes) == 1 {
		t.Nodes[0].wholeMemory()
	}
	return t, nil
}

// wholeMemory gives the only node all memory of the host, where sysfs knows less: it says nothing, or (in virtual machines whose
// memory was resized) leaves a part out.
func (n *Node) wholeMemory() {
	var info unix.Sysinfo_t
	if unix.Sysinfo(&info) != nil {
		return
	}
	unit := int64(info.Unit)
	missing := int64(info.Totalram)*unit - n.MemoryBytes
	if missing <= 0 {
		return
	}
	free := int64(info.Freeram) * unit
	n.AvailableBytes += max(0, free-n.FreeBytes)
	n.MemoryBytes += missing
	n.FreeBytes = free
}
