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
	if !t.Known {
		var info unix.Sysinfo_t
		if unix.Sysinfo(&info) == nil {
			n := &t.Nodes[0]
			n.MemoryBytes = int64(info.Totalram) * int64(info.Unit)
			n.FreeBytes = int64(info.Freeram) * int64(info.Unit)
			n.AvailableBytes = n.FreeBytes
		}
	}
	return t, nil
}
