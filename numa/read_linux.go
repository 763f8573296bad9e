package numa

import (
	"os"
	"slices"
	"strconv"

	"golang.org/x/sys/unix"
)

// Read gives the topology of this host for this process: it may use a CPU that any of its threads may use.
func Read() (*Topology, error) {
	allowed, err := processAffinity()
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

// processAffinity is what all threads together may use. One thread doesn't tell: it may be pinned, the main thread too. The
// runtime has threads that nothing pins.
func processAffinity() ([]int, error) {
	threads, err := os.ReadDir("/proc/self/task")
	if err != nil {
		return ThreadAffinity(0)
	}
	var all []int
	for _, entry := range threads {
		thread, err := strconv.Atoi(entry.Name())
		if err != nil {
			continue
		}
		if cpus, err := ThreadAffinity(thread); err == nil { // else it has ended
			all = append(all, cpus...)
		}
	}
	if len(all) == 0 {
		return ThreadAffinity(0)
	}
	slices.Sort(all)
	return slices.Compact(all), nil
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
