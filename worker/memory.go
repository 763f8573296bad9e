package worker

import (
	"fmt"

	"github.com/moepool/moepool/internal/bytesize"
	"github.com/moepool/moepool/numa/hostinfo"
	"github.com/moepool/moepool/worker/shard"
)

// HostMemory gives what this process may still take: the kernel's MemAvailable, or less where a cgroup says so. Nothing is known on
// systems without these files.
func HostMemory(host hostinfo.Host) shard.Memory {
	var m shard.Memory
	if memory, err := host.Memory(); err == nil {
		m.Available = memory.Available
		m.Why = "MemAvailable " + bytesize.Text(m.Available)
	}
	if group := host.Cgroup(); group.Limit != hostinfo.Unlimited {
		if m.Why != "" {
			m.Why += ", "
		}
		m.Why += fmt.Sprintf("cgroup limit %s with %s left", bytesize.Text(group.Limit), bytesize.Text(group.Available))
		if m.Available == 0 || group.Available < m.Available {
			m.Available = max(group.Available, 1) // 0 would mean unknown
		}
	}
	return m
}

// lockLimit is how much this worker may lock of its experts: what it may take of the host. 0: a resident limit keeps it small anyway.
func (h *holding) lockLimit() int64 {
	if h.o.Residency.Limit > 0 {
		return 0
	}
	return h.memory.Available
}

// rssAnon is this process's anonymous resident memory in bytes; 0 where it can't be read.
func rssAnon() int64 {
	memory, err := hostinfo.This().Process(hostinfo.Self)
	if err != nil {
		return 0
	}
	return memory.RssAnon
}
